package identity

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"io"
)

// Certificate returns the key as the one behind a certificate: it proves to the
// other side of a connection who is here. It never signs what an intent looks
// like, so that nobody can have a decision signed in the course of a handshake.
func (s *Signer) Certificate() crypto.Signer { return certificate{s} }

type certificate struct{ key *Signer }

// Public implements crypto.Signer.
func (c certificate) Public() crypto.PublicKey { return ed25519.PublicKey(bytes.Clone(c.key.public)) }

// intents begin with this; see palyra.Intent.Bytes.
var intents = []byte("palyra/")

// Sign implements crypto.Signer.
func (c certificate) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts.HashFunc() != 0 {
		return nil, errors.New("identity: an Ed25519 key signs messages, not their digests")
	}
	if bytes.HasPrefix(message, intents) {
		return nil, errors.New("identity: this is no part of a connection")
	}
	return c.key.raw(message)
}
