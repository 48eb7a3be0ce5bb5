package vault

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"palyra"
)

// keyBytes is the length of every key here.
const keyBytes = chacha20poly1305.KeySize

// What the keys of a vault are for, and what is sealed. A key or a text of one kind is none of another.
const (
	useWrap     = "palyra vault: wrap data keys 1"
	useManifest = "palyra vault: manifest 1"
	kindWrapped = "palyra vault: data key 1"
	kindValue   = "palyra vault: value 1"
	kindLeaf    = "palyra vault: leaf 1"
)

// derived are the keys that a vault key stands for.
type derived struct{ wrap, manifest palyra.Secret }

// derive makes them.
func derive(key palyra.Secret) (d derived, err error) {
	err = key.Use(func(raw []byte) error {
		if len(raw) != keyBytes {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonVaultLocked, "the keeper has a vault key of %d bytes, not %d", len(raw), keyBytes).
				WithRemedy("restore the key from a backup")
		}
		for use, to := range map[string]*palyra.Secret{useWrap: &d.wrap, useManifest: &d.manifest} {
			k, err := hkdf.Key(sha256.New, raw, nil, use, keyBytes)
			if err != nil {
				return err
			}
			*to = palyra.NewSecret(k)
		}
		return nil
	})
	return d, err
}

func (d derived) destroy() {
	d.wrap.Destroy()
	d.manifest.Destroy()
}

// newKey returns a random key.
func newKey() palyra.Secret {
	k := make([]byte, keyBytes)
	_, _ = rand.Read(k) // it never fails
	return palyra.NewSecret(k)
}

// seal encrypts text under a key, bound to what it is.
func seal(key palyra.Secret, text, about []byte) (out []byte, err error) {
	err = key.Use(func(k []byte) error {
		aead, err := chacha20poly1305.NewX(k)
		if err != nil {
			return err
		}
		nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
		_, _ = rand.Read(nonce)
		out = aead.Seal(nonce, nonce, text, about)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("vault: seal: %w", err)
	}
	return out, nil
}

// unseal is the reverse. What it returns is not about anything that was bound to it unless the error is nil.
func unseal(key palyra.Secret, sealed, about []byte) (text palyra.Secret, ok bool) {
	err := key.Use(func(k []byte) error {
		aead, err := chacha20poly1305.NewX(k)
		if err != nil {
			return err
		}
		n := aead.NonceSize()
		if len(sealed) < n {
			return errCut
		}
		raw, err := aead.Open(nil, sealed[:n], sealed[n:], about)
		if err != nil {
			return err
		}
		text = palyra.NewSecret(raw)
		return nil
	})
	return text, err == nil
}

// encode joins fields so that no two lists of fields are the same bytes: strings, bytes and numbers.
func encode(kind string, fields ...any) []byte {
	out := appendField(nil, []byte(kind))
	for _, f := range fields {
		switch f := f.(type) {
		case int64:
			out = binary.BigEndian.AppendUint64(out, uint64(f))
		case []byte:
			out = appendField(out, f)
		default:
			out = appendField(out, fmt.Append(nil, f))
		}
	}
	return out
}

func appendField(out, field []byte) []byte {
	return append(binary.BigEndian.AppendUint64(out, uint64(len(field))), field...)
}
