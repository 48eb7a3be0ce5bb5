package keyring

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"palyra"
)

// algEd25519 marks an Ed25519 key in the signed-note format.
const algEd25519 = 1

// KeyID returns the name of a public key: the first 16 hex digits of the SHA-256 of its 32 bytes.
func KeyID(pub ed25519.PublicKey) string {
	h := sha256.Sum256(pub)
	return hex.EncodeToString(h[:8])
}

// Signer is one key. It has the methods of a signed-note signer.
type Signer struct {
	use     palyra.KeyUse
	name    string
	pub     ed25519.PublicKey
	private palyra.Secret
	late    *late // nil: private is there
}

// newSigner takes over key; nil stays nil, for the error path of the caller.
func newSigner(use palyra.KeyUse, name string, key ed25519.PrivateKey) *Signer {
	if key == nil {
		return nil
	}
	return &Signer{use: use, name: name, pub: public(key), private: palyra.NewSecret(key)}
}

// KeyID returns the key's id.
func (s *Signer) KeyID() string { return KeyID(s.pub) }

// Use returns what the key is for.
func (s *Signer) Use() palyra.KeyUse { return s.use }

// Public returns the public half.
func (s *Signer) Public() ed25519.PublicKey { return append(ed25519.PublicKey(nil), s.pub...) }

// Sign returns the Ed25519 signature of msg.
func (s *Signer) Sign(msg []byte) ([]byte, error) {
	private, err := s.half()
	if err != nil {
		return nil, err
	}
	var sig []byte
	err = private.Use(func(key []byte) error {
		sig = ed25519.Sign(key, msg)
		return nil
	})
	return sig, err
}

// Name returns the key's name in signed notes.
func (s *Signer) Name() string { return s.name }

// KeyHash returns the key's hash in signed notes.
func (s *Signer) KeyHash() uint32 { return keyHash(s.name, s.pub) }

// Verifier returns the key's signed-note verifier line.
func (s *Signer) Verifier() string { return verifierLine(s.name, s.pub) }

// Format implements fmt.Formatter for every verb: use and id, nothing else.
func (s *Signer) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "%s key %s", s.use, s.KeyID())
}

func (s *Signer) key(now time.Time) palyra.Key {
	return palyra.Key{
		ID: s.KeyID(), Use: s.use, PublicKey: base64.StdEncoding.EncodeToString(s.pub), Verifier: s.Verifier(), CreatedAt: now.UTC(),
	}
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func noteKey(pub ed25519.PublicKey) []byte { return append([]byte{algEd25519}, pub...) }

func keyHash(name string, pub ed25519.PublicKey) uint32 {
	h := sha256.Sum256(append([]byte(name+"\n"), noteKey(pub)...))
	return binary.BigEndian.Uint32(h[:4])
}

func verifierLine(name string, pub ed25519.PublicKey) string {
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, pub), base64.StdEncoding.EncodeToString(noteKey(pub)))
}

func verifierName(line string) string {
	name, _, _ := strings.Cut(line, "+")
	return name
}

// validName reports whether a name may stand in a signed note.
func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsRune(name, '+') &&
		strings.IndexFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) < 0
}
