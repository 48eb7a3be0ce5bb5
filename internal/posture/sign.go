package posture

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/canon"
)

// MaxInput is the largest text that Verify looks at.
const MaxInput = 4 << 20

// Signer is the key in force.
type Signer interface {
	KeyID() string
	// Sign returns the Ed25519 signature of msg.
	Sign(msg []byte) ([]byte, error)
}

// subjectPrefix and the state's id name the subject of a statement.
const subjectPrefix = "palyra:posture:"

// statement is an in-toto Statement v1. Its fields stand in this order.
type statement struct {
	Type          string         `json:"_type"`
	Subject       []subject      `json:"subject"`
	PredicateType string         `json:"predicateType"`
	Predicate     palyra.Posture `json:"predicate"`
}

type subject struct {
	Name   string    `json:"name"`
	Digest digestSet `json:"digest"`
}

type digestSet struct {
	SHA256 string `json:"sha256"`
}

func statementOf(p palyra.Posture) (statement, palyra.Digest, error) {
	digest, err := p.Digest()
	return statement{
		Type: palyra.StatementType, PredicateType: palyra.PosturePredicateType, Predicate: p,
		Subject: []subject{{Name: subjectPrefix + p.StateID, Digest: digestSet{SHA256: strings.TrimPrefix(string(digest), "sha256:")}}},
	}, digest, err
}

// Sign signs a posture with a key.
func Sign(key Signer, p palyra.Posture) (palyra.SignedPosture, error) {
	if key == nil {
		return palyra.SignedPosture{}, errors.New("posture: sign: there is no key")
	}
	st, digest, err := statementOf(p)
	if err != nil {
		return palyra.SignedPosture{}, fmt.Errorf("posture: sign: %w", err)
	}
	payload, err := canon.JSON(st)
	if err != nil {
		return palyra.SignedPosture{}, fmt.Errorf("posture: sign: %w", err)
	}
	sig, err := key.Sign(preAuth(palyra.PayloadType, payload))
	if err != nil {
		return palyra.SignedPosture{}, fmt.Errorf("posture: sign: %w", err)
	}
	return palyra.SignedPosture{Digest: digest, Posture: p, Envelope: palyra.Envelope{
		PayloadType: palyra.PayloadType, Payload: base64.StdEncoding.EncodeToString(payload),
		Signatures: []palyra.EnvelopeSignature{{KeyID: key.KeyID(), Sig: base64.StdEncoding.EncodeToString(sig)}},
	}}, nil
}

// preAuth is what a DSSE signature is made over.
func preAuth(kind string, payload []byte) []byte {
	var b bytes.Buffer
	b.WriteString("DSSEv1 " + strconv.Itoa(len(kind)) + " " + kind + " " + strconv.Itoa(len(payload)) + " ")
	b.Write(payload)
	return b.Bytes()
}

// Verify checks an envelope, or what commands show with one in it, against the keys
// of the reader's trust and returns
// what it holds. White space between tokens is free; any other change is found.
// Current is not Verify's to say.
func Verify(raw []byte, keys ...ed25519.PublicKey) (palyra.SignedPosture, error) {
	shown, wrapped := unwrap(raw)
	if wrapped {
		raw = shown.Envelope
	}
	p, err := verify(raw, keys)
	if err == nil && wrapped && !shown.tells(p) {
		return palyra.SignedPosture{}, fail("what is shown beside the envelope is not what was signed")
	}
	return p, err
}

// outer is a posture as commands show it: the envelope, and beside it what is in it, which nobody signed.
type outer struct {
	Digest   palyra.Digest   `json:"digest"`
	Current  bool            `json:"current"`
	Envelope json.RawMessage `json:"envelope"`
	Posture  palyra.Posture  `json:"posture"`
}

func unwrap(raw []byte) (outer, bool) {
	var o outer
	return o, len(raw) <= MaxInput && canon.Strict(raw, &o) == nil && len(o.Envelope) > 0
}

// tells reports whether what is shown is what was signed.
func (o outer) tells(p palyra.SignedPosture) bool {
	digest, err := o.Posture.Digest()
	return err == nil && digest == p.Digest && o.Digest == p.Digest
}

func verify(raw []byte, keys []ed25519.PublicKey) (palyra.SignedPosture, error) {
	env, err := readEnvelope(raw)
	if err != nil {
		return palyra.SignedPosture{}, err
	}
	payload, err := canon.Base64(env.Payload, 0)
	if err != nil {
		return palyra.SignedPosture{}, fail("the payload is not canonical base64")
	}
	sig, err := canon.Base64(env.Signatures[0].Sig, ed25519.SignatureSize)
	if err != nil {
		return palyra.SignedPosture{}, fail("the signature is not canonical base64")
	}
	pub := find(keys, env.Signatures[0].KeyID)
	if pub == nil {
		return palyra.SignedPosture{}, fail("key %q is not one of the trusted attestation keys", palyra.Clip(env.Signatures[0].KeyID, 40))
	}
	if !ed25519.Verify(pub, preAuth(env.PayloadType, payload), sig) {
		return palyra.SignedPosture{}, fail("the signature does not match: the payload was changed, or another key signed it")
	}
	p, digest, err := readStatement(payload)
	return palyra.SignedPosture{Digest: digest, Envelope: env, Posture: p}, err
}

// readEnvelope reads an envelope in the one form in which it is written.
func readEnvelope(raw []byte) (palyra.Envelope, error) {
	var env palyra.Envelope
	if len(raw) > MaxInput {
		return env, fail("the text is larger than %d bytes", MaxInput)
	}
	var text bytes.Buffer
	if !utf8.Valid(raw) || json.Compact(&text, raw) != nil {
		return env, fail("the text is not one JSON value")
	}
	if canon.Strict(text.Bytes(), &env) != nil {
		return env, fail("there is no DSSE envelope")
	}
	again, err := json.Marshal(env)
	switch {
	case err != nil || !bytes.Equal(again, text.Bytes()):
		return env, fail("the envelope is not written as the daemon writes it")
	case env.PayloadType != palyra.PayloadType:
		return env, fail("the payload type is not %s", palyra.PayloadType)
	case len(env.Signatures) != 1:
		return env, fail("the envelope has %d signatures, not one", len(env.Signatures))
	}
	return env, nil
}

// readStatement reads a payload that Sign could have written, and no other.
func readStatement(payload []byte) (palyra.Posture, palyra.Digest, error) {
	var st statement
	if canon.Strict(payload, &st) != nil {
		return palyra.Posture{}, "", fail("the payload is not a statement of ours")
	}
	want, digest, err := statementOf(st.Predicate)
	if err != nil {
		return palyra.Posture{}, "", fail("the posture has no digest")
	}
	again, err := canon.JSON(want)
	if err != nil || !bytes.Equal(again, payload) {
		return palyra.Posture{}, "", fail("the payload is not a posture as the daemon writes it")
	}
	return st.Predicate, digest, nil
}

// find returns the key with that id, which is computed, not believed.
func find(keys []ed25519.PublicKey, id string) ed25519.PublicKey {
	for _, k := range keys {
		if sum := sha256.Sum256(k); len(k) == ed25519.PublicKeySize && hex.EncodeToString(sum[:8]) == id {
			return k
		}
	}
	return nil
}

// fail is a finding of Verify.
func fail(format string, args ...any) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, format, args...).
		WithRemedy("do not rely on it; have it made again with 'palyra sandbox doctor', and check the key with 'palyra keys list'")
}
