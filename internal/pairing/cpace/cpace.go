// Package cpace is the password-authenticated key exchange behind a pairing PIN: CPace over ristretto255 with
// SHA-512, as draft-irtf-cfrg-cpace describes it for an initiator and a responder.
//
// Words: each side makes an Exchange from the password (PRS), what both know about the channel (CI) and a session
// id (sid), sends Message and gives the other's to Finish, which returns the intermediate session key. Keys derived
// from it and a confirmation of them are the caller's.
//
// Promises: who sees or even answers the messages learns nothing with which to test a second password; an encoding
// that is no element of the group, and the identity, are refused; an Exchange is good for one Finish. It does not
// confirm that the other side had the same password: without a confirmation nobody is authenticated.
package cpace

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gtank/ristretto255"
)

const (
	dsi    = "CPaceRistretto255"
	dsiISK = dsi + "_ISK"
	block  = sha512.BlockSize

	// Size is the length of a message.
	Size = 32
	// KeySize is the length of the session key.
	KeySize = sha512.Size
)

// What can be wrong with an exchange. None of them says anything about the password.
var (
	ErrNoPassword = errors.New("cpace: no password")
	ErrBadPoint   = errors.New("cpace: the other side's message is not a usable group element")
	ErrReflected  = errors.New("cpace: the other side sent our own message back")
	ErrSpent      = errors.New("cpace: the exchange was used before")
	ErrRole       = errors.New("cpace: no such role")
)

// Side says whose message comes first in the transcript.
type Side int

// The roles. The zero Role is none, so that nobody takes one by forgetting it.
const (
	Initiator Side = iota + 1
	Responder
)

// Exchange is one side of one run. It is not safe for concurrent use.
type Exchange struct {
	sid     []byte
	scalar  *ristretto255.Scalar // nil once used
	message []byte
}

// New starts a run with a fresh secret.
func New(prs, ci, sid []byte) (*Exchange, error) {
	seed := make([]byte, 64)
	if _, err := rand.Read(seed); err != nil {
		return nil, fmt.Errorf("cpace: new: %w", err)
	}
	defer clear(seed)
	y, err := ristretto255.NewScalar().SetUniformBytes(seed)
	if err != nil {
		return nil, fmt.Errorf("cpace: new: %w", err)
	}
	return start(prs, ci, sid, y)
}

func start(prs, ci, sid []byte, y *ristretto255.Scalar) (*Exchange, error) {
	if len(prs) == 0 {
		return nil, ErrNoPassword
	}
	g, err := generator(prs, ci, sid)
	if err != nil {
		return nil, err
	}
	share := ristretto255.NewIdentityElement().ScalarMult(y, g)
	// A zero scalar never happens; if it did, everyone would know the key.
	if isIdentity(share) {
		return nil, ErrBadPoint
	}
	return &Exchange{sid: bytes.Clone(sid), scalar: y, message: share.Bytes()}, nil
}

// Message is what the other side is to be given.
func (e *Exchange) Message() []byte { return bytes.Clone(e.message) }

// Finish takes the other side's message and returns the session key. The role is the caller's own; adA and adB are
// what initiator and responder said beside their messages. Whatever it returns, e cannot be used again.
func (e *Exchange) Finish(peer []byte, role Side, adA, adB []byte) ([]byte, error) {
	y := e.scalar
	if y == nil {
		return nil, ErrSpent
	}
	e.scalar = nil
	defer y.Zero()
	if role != Initiator && role != Responder {
		return nil, ErrRole
	}
	if bytes.Equal(peer, e.message) {
		return nil, ErrReflected
	}
	k, err := multiply(y, peer)
	if err != nil {
		return nil, err
	}
	defer clear(k)
	ya, yb := e.message, peer
	if role == Responder {
		ya, yb = peer, e.message
	}
	input := append(LV([]byte(dsiISK), e.sid, k), transcript(ya, adA, yb, adB)...)
	defer clear(input)
	isk := sha512.Sum512(input)
	return isk[:], nil
}

// multiply is scalar_mult_vfy of the draft, with an error where that returns the identity.
func multiply(y *ristretto255.Scalar, peer []byte) ([]byte, error) {
	p, err := ristretto255.NewIdentityElement().SetCanonicalBytes(peer)
	if err != nil {
		return nil, ErrBadPoint
	}
	k := ristretto255.NewIdentityElement().ScalarMult(y, p)
	if isIdentity(k) {
		return nil, ErrBadPoint
	}
	return k.Bytes(), nil
}

func isIdentity(e *ristretto255.Element) bool {
	return e.Equal(ristretto255.NewIdentityElement()) == 1
}

func generator(prs, ci, sid []byte) (*ristretto255.Element, error) {
	text := generatorString(prs, ci, sid)
	defer clear(text)
	hash := sha512.Sum512(text)
	defer clear(hash[:])
	g, err := ristretto255.NewIdentityElement().SetUniformBytes(hash[:])
	if err != nil {
		return nil, fmt.Errorf("cpace: generator: %w", err)
	}
	return g, nil
}

// generatorString pads the password to the end of the first hash block, so that
// how long the rest takes to hash does not depend on it.
func generatorString(prs, ci, sid []byte) []byte {
	pad := max(0, block-1-len(LV(prs))-len(LV([]byte(dsi))))
	return LV([]byte(dsi), prs, make([]byte, pad), ci, sid)
}

func transcript(ya, adA, yb, adB []byte) []byte { return LV(ya, adA, yb, adB) }

// LV joins parts, each with its length in LEB128 before it, so that no two lists of parts give the same bytes.
func LV(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}
