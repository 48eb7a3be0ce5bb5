package attest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"palyra"
	"palyra/internal/canon"
)

// MaxInput is the largest text that Verify looks at.
const MaxInput = 64 << 20

// keyUse is the use of the keys that sign attestations.
const keyUse = "attestation"

// Trust is whom a reader believes.
type Trust struct {
	Keys         []palyra.Key // the daemon's; those of another use than attestation do not count
	OperatorKeys []string     // base64 public keys of approvers; empty: theirs are taken as they come, with a warning
}

// Report is what Verify found.
type Report struct {
	Form          string             `json:"form"`    // envelope or outcome
	Checked       []string           `json:"checked"` // what was checked, in order
	AttestationID palyra.ID          `json:"attestation_id"`
	StateID       string             `json:"state_id"` // the daemon's, by its own word
	Digest        palyra.Digest      `json:"digest"`   // of the envelope, as in the journal's finished line
	CallID        palyra.CallID      `json:"call_id"`
	Tool          palyra.ToolName    `json:"tool"`
	Principal     palyra.Principal   `json:"principal"`
	PlanDigest    palyra.Digest      `json:"plan_digest"`
	DecidedBy     []palyra.Principal `json:"decided_by"` // empty: policy alone allowed it
	Separation    palyra.Separation  `json:"approver_separation"`
	Tier          palyra.Tier        `json:"tier"`
	Executor      string             `json:"executor"`
	Enforcement   palyra.Enforcement `json:"sandbox_enforcement"`
	Outcome       palyra.OutcomeKind `json:"outcome"`
	ExitCode      int                `json:"exit_code"`
	StartedAt     string             `json:"started_at"`
	FinishedAt    string             `json:"finished_at"`
	Granted       palyra.Position    `json:"granted"`
	KeyID         string             `json:"key_id"`
	Warnings      []string           `json:"warnings"`
}

// KeyOf returns the trusted key for a bare base64 Ed25519 public key.
func KeyOf(text string) (palyra.Key, error) {
	pub, err := canon.Base64(text, ed25519.PublicKeySize)
	if err != nil {
		return palyra.Key{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "that is not a base64 Ed25519 public key").
			WithRemedy("take it from 'palyra keys list'")
	}
	return palyra.Key{ID: keyID(pub), Use: keyUse, PublicKey: text}, nil
}

// Verify checks an envelope, or a whole outcome with its envelope. White space between tokens is free; any other
// change is found. The error names what is wrong.
func Verify(raw []byte, trust Trust) (Report, error) {
	v := verifier{trust: trust, report: Report{Form: "envelope", DecidedBy: []palyra.Principal{}, Warnings: []string{}}}
	text, err := compact(raw)
	if err != nil {
		return Report{}, err
	}
	envelope, body := split(text)
	if body != nil {
		v.report.Form = "outcome"
	}
	payload, err := v.envelope(envelope)
	if err != nil {
		return Report{}, err
	}
	if err := v.statement(payload); err != nil {
		return Report{}, err
	}
	if body != nil {
		if err := v.outcome(text, body); err != nil {
			return Report{}, err
		}
	}
	return v.report, nil
}

// verifier is one check on its way.
type verifier struct {
	trust     Trust
	predicate palyra.Predicate
	report    Report
}

func (v *verifier) checked(what string) { v.report.Checked = append(v.report.Checked, what) }

func (v *verifier) warn(what string) { v.report.Warnings = append(v.report.Warnings, what) }

func compact(raw []byte) ([]byte, error) {
	if len(raw) > MaxInput {
		return nil, fail("the text is larger than %d bytes", MaxInput)
	}
	if !utf8.Valid(raw) {
		return nil, fail("the text is not UTF-8")
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil {
		return nil, fail("the text is not one JSON value")
	}
	return buf.Bytes(), nil
}

const (
	envelopeStart = `{"payloadType":`
)

// split takes an outcome apart into its envelope and the bytes before it. The text is one compact JSON value, so a
// last member of the outermost object is the only thing that can begin with palyra.AttestationKey, begin an
// envelope, and end with the last brace. Without one, all of it must be the envelope.
func split(text []byte) (envelope, body []byte) {
	i := bytes.LastIndex(text, []byte(palyra.AttestationKey+envelopeStart))
	if i < 0 || text[len(text)-1] != '}' {
		return text, nil
	}
	return text[i+len(palyra.AttestationKey) : len(text)-1], text[:i]
}

// envelope checks form and signature and returns the payload.
func (v *verifier) envelope(text []byte) ([]byte, error) {
	var env palyra.Envelope
	if err := canon.Strict(text, &env); err != nil {
		return nil, fail("there is no DSSE envelope in it")
	}
	again, err := json.Marshal(env)
	if err != nil || !bytes.Equal(again, text) {
		return nil, fail("the envelope is not written as the daemon writes it")
	}
	if env.PayloadType != palyra.PayloadType {
		return nil, fail("the payload type is not %s", palyra.PayloadType)
	}
	if len(env.Signatures) != 1 {
		return nil, fail("the envelope has %d signatures, not one", len(env.Signatures))
	}
	payload, err := canon.Base64(env.Payload, 0)
	if err != nil {
		return nil, fail("the payload is not canonical base64")
	}
	sig, err := canon.Base64(env.Signatures[0].Sig, ed25519.SignatureSize)
	if err != nil {
		return nil, fail("the signature is not canonical base64")
	}
	pub, err := v.key(env.Signatures[0].KeyID)
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(pub, dsse.PAE(env.PayloadType, payload), sig) {
		return nil, fail("the signature does not match: the payload was changed, or another key signed it")
	}
	v.report.KeyID, v.report.Digest = env.Signatures[0].KeyID, palyra.SumBytes(text)
	v.checked("envelope form")
	v.checked("daemon signature")
	return payload, nil
}

// key finds a trusted key by its id, which is computed, not believed.
func (v *verifier) key(id string) (ed25519.PublicKey, error) {
	for _, k := range v.trust.Keys {
		if k.Use != keyUse && k.Use != "" {
			continue
		}
		pub, err := canon.Base64(k.PublicKey, ed25519.PublicKeySize)
		if err != nil || keyID(pub) != id {
			continue
		}
		return pub, nil
	}
	return nil, fail("key %q is not one of the trusted attestation keys", palyra.Clip(id, 40))
}

// retired warns when a key was out of service before the run ended.
func (v *verifier) retired() {
	finished, err := time.Parse(time.RFC3339Nano, v.predicate.FinishedAt)
	for _, k := range v.trust.Keys {
		if err == nil && k.ID == v.report.KeyID && !k.RetiredAt.IsZero() && finished.After(k.RetiredAt.Add(time.Minute)) {
			v.warn("the signing key was retired before this run finished")
		}
	}
}

// keyID names a public key: the first 16 hex digits of its SHA-256.
func keyID(pub []byte) string {
	h := sha256.Sum256(pub)
	return hex.EncodeToString(h[:8])
}
