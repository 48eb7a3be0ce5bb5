// Package openpgp has keys of OpenPGP that sign texts, as 'gpg --detach-sign --armor' does.
package openpgp

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"palyra"
)

// Key is a private key that signs.
type Key struct {
	entity *openpgp.Entity

	socket, grip string // of the gpg-agent that has the private half, and its name there; empty: it is here
}

// Armored reports whether a text may be such a key.
func Armored(text []byte) bool {
	return bytes.Contains(text, []byte("-----BEGIN PGP PRIVATE KEY BLOCK-----"))
}

func unusable(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...)
}

// Parse reads a private key, as 'gpg --export-secret-keys --armor' writes it, without a passphrase.
func Parse(text []byte, now time.Time) (*Key, error) {
	list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(text))
	if err != nil || len(list) != 1 { // the library's text may quote the key's
		return nil, unusable("it is not one private key of OpenPGP").
			WithRemedy("put in what 'gpg --armor --export-secret-keys KEY' prints, of one key")
	}
	k := &Key{entity: list[0]}
	signer, ok := k.entity.SigningKey(now)
	switch {
	case !ok || signer.PrivateKey == nil:
		return nil, unusable("the key does not sign: it has expired, was revoked, or its private part is not there").
			WithRemedy("put in one that does")
	case signer.PrivateKey.Encrypted:
		return nil, unusable("the private key has a passphrase").
			WithRemedy("put a copy without one into the vault, which seals it itself (gpg --edit-key KEY passwd, in a GNUPGHOME of its own)")
	case signer.PrivateKey.Dummy():
		return nil, unusable("the private part of the key is not there: a card or another machine has it").
			WithRemedy("have the gpg-agent sign that reaches it: palyra vault bind --sign --gpg-agent SOCKET --key FILE")
	}
	return k, nil
}

// Fingerprint is that of the key.
func (k *Key) Fingerprint() string {
	return strings.ToUpper(hex.EncodeToString(k.entity.PrimaryKey.Fingerprint))
}

// SignText returns an armored detached signature.
func (k *Key) SignText(ctx context.Context, text []byte, now time.Time) ([]byte, error) {
	if k.socket != "" {
		raw, err := k.signInAgent(ctx, text, now)
		if err != nil {
			return nil, err
		}
		return armored(raw)
	}
	signer, ok := k.entity.SigningKey(now)
	if !ok || signer.PrivateKey == nil {
		return nil, unusable("the key does not sign any more")
	}
	var raw bytes.Buffer
	if err := openpgp.DetachSign(&raw, k.entity, bytes.NewReader(text), &packet.Config{Time: func() time.Time { return now }}); err != nil {
		return nil, unusable("the key does not sign")
	}
	return armored(raw.Bytes())
}

// armored writes a signature as text.
func armored(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := armor.Encode(&out, openpgp.SignatureType, nil)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(raw); err == nil {
		err = w.Close()
	}
	return append(out.Bytes(), '\n'), err
}
