// Package identity keeps operators' signing keys: one Ed25519 key per file,
// readable by its owner only, bare or behind a passphrase.
//
// Words: a key file is made by Create, or by CreateProtected behind a passphrase (age, scrypt) from the start;
// Protect puts a bare one behind a passphrase later. It is used through the Signer that Load returns. The
// separation of a signer says how far the key is out of an agent's reach: a bare file is within reach of anything
// that runs unsandboxed under the same user, which is why the level stands in every decision.
//
// Promises: a file that others may read, that somebody else owns, or that is reached through a symbolic link is
// refused; files are replaced whole or not at all; the secret half is never printed. The package asks nobody
// anything: the passphrase comes from the caller, who must read it from the terminal and never from a flag, the
// environment or standard input.
//
// It does not know which keys the daemon accepts; that is access.
//
// Its words are those of docs/words.md.
package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"os"
	"sync"
	"time"

	"palyra"
	"palyra/internal/agefile"
)

// MinPassphrase is the shortest passphrase that a key is put behind, in bytes.
const MinPassphrase = agefile.MinPassphrase

// KeyID returns the name of a public key: a digest's beginning.
func KeyID(pub ed25519.PublicKey) string {
	const hexStart, hexLen = len("sha256:"), 32
	return "op-" + string(palyra.SumBytes(pub)[hexStart:hexStart+hexLen])
}

// Signer is an operator's key, ready to sign. It is safe for concurrent use.
type Signer struct {
	public     ed25519.PublicKey
	separation palyra.Separation
	unlock     func() (palyra.Secret, error)

	mu   sync.Mutex // guards seed; held while the person types, so that they are asked once
	seed palyra.Secret
}

// KeyID names the key.
func (s *Signer) KeyID() string { return KeyID(s.public) }

// Public returns the public half, in base64.
func (s *Signer) Public() string { return base64.StdEncoding.EncodeToString(s.public) }

// Separation says how far the key is out of an agent's reach.
func (s *Signer) Separation() palyra.Separation { return s.separation }

// Sign returns the base64 signature over an intent that names this key. A
// protected key asks for its passphrase the first time.
func (s *Signer) Sign(i palyra.Intent) (string, error) {
	if i.KeyID != s.KeyID() {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonUnknownKey, "the intent names another key")
	}
	msg, err := i.Bytes()
	if err != nil {
		return "", err
	}
	sig, err := s.raw(msg)
	return base64.StdEncoding.EncodeToString(sig), err
}

// raw signs a message.
func (s *Signer) raw(msg []byte) (sig []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seed.Empty() {
		if s.seed, err = s.unlock(); err != nil {
			return nil, err
		}
	}
	err = s.seed.Use(func(seed []byte) error {
		priv := ed25519.NewKeyFromSeed(seed)
		defer clear(priv)
		sig = ed25519.Sign(priv, msg)
		return nil
	})
	return sig, err
}

// Close forgets the secret half. A protected key that Load opened asks again
// when it must sign; any other cannot sign afterwards.
func (s *Signer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seed.Destroy()
}

// Create makes a new bare key in a file that must not exist yet; its directory
// is made readable by its owner only. When it returns nil the key is on disk.
func Create(path string) (*Signer, error) {
	f, seed, err := generate()
	if err != nil {
		return nil, err
	}
	defer seed.Destroy()
	_ = seed.Use(func(b []byte) error { f.Seed = base64.StdEncoding.EncodeToString(b); return nil })
	if err := f.write(path); err != nil {
		return nil, err
	}
	return Load(path, nil)
}

// CreateProtected makes a new key behind a passphrase, which stays the caller's,
// in a file that must not exist yet. The secret half is encrypted before the
// first byte is written: no file ever holds it bare, whenever the machine stops.
//
// When it returns nil the key is on disk and the passphrase has opened it there.
// The signer is unlocked and asks nobody; once closed it cannot sign.
func CreateProtected(path string, passphrase palyra.Secret) (*Signer, error) {
	f, seed, err := generate()
	if err != nil {
		return nil, err
	}
	defer seed.Destroy()
	if f.Protected, err = lock(seed, passphrase); err != nil {
		return nil, err
	}
	if err := f.write(path); err != nil {
		return nil, err
	}
	s, err := loadUnlocked(path, passphrase)
	if err != nil {
		_ = os.Remove(path) // ours, and nobody relies on it yet
		return nil, err
	}
	return s, nil
}

// generate makes a key, and the file for it that lacks only the secret half.
func generate() (file, palyra.Secret, error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return file{}, palyra.Secret{}, err
	}
	defer clear(priv)
	f := file{
		Version: fileVersion, KeyID: KeyID(pub), PublicKey: base64.StdEncoding.EncodeToString(pub), CreatedAt: palyra.Time(time.Now()),
	}
	return f, palyra.NewSecret(priv.Seed()), nil
}

// loadUnlocked opens a protected key file at once, with a passphrase that stays the caller's.
func loadUnlocked(path string, passphrase palyra.Secret) (*Signer, error) {
	s, err := Load(path, func() (p palyra.Secret, err error) {
		err = passphrase.Use(func(b []byte) error { p = palyra.NewSecret(bytes.Clone(b)); return nil })
		return p, err
	})
	if err != nil {
		return nil, err
	}
	if s.seed, err = s.unlock(); err != nil {
		return nil, err
	}
	s.unlock = closed // the caller's passphrase is not kept
	return s, nil
}

// Load opens a key file. passphrase is called at the first signature of a
// protected key, and only then; it may be nil for a bare one.
func Load(path string, passphrase func() (palyra.Secret, error)) (*Signer, error) {
	f, err := readFile(path)
	if err != nil {
		return nil, err
	}
	pub, err := f.public()
	if err != nil {
		return nil, err
	}
	s := &Signer{public: pub, separation: palyra.SeparationNone, unlock: closed}
	if f.Protected != "" {
		s.separation = palyra.SeparationPassphrase
		s.unlock = func() (palyra.Secret, error) { return f.open(pub, passphrase) }
		return s, nil
	}
	s.seed, err = f.bare(pub)
	return s, err
}

// closed unlocks nothing: there is nobody to ask.
func closed() (palyra.Secret, error) {
	return palyra.Secret{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnknownKey, "the key was closed")
}
