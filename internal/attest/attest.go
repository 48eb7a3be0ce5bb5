// Package attest signs what ran, keeps it, and checks it again without a daemon.
//
// An attestation is an in-toto Statement (subject: the call, by the digest of its plan) whose predicate says who
// asked, what policy and people answered, what ran under which enforcement and with which result, in a DSSE
// envelope signed with Ed25519.
//
// Words: a statement is what is signed; an envelope is the signed text; an outcome is what the agent got, with the
// envelope as its last member; trust is the set of keys a reader accepts.
//
// Promises: what Attest signs, Verify accepts; a text that Verify accepts is, up to white space between tokens,
// byte for byte the one that was signed, and each answer in it was signed by its approver, for this daemon, and for
// this plan or for a generalisation that the approver chose. Verify does not say that the journal holds the
// attestation (that takes an inclusion proof), nor that the daemon told the truth about what it saw.
//
// Its words are those of docs/words.md.
package attest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"palyra"
	"palyra/internal/pack"
	"palyra/internal/store"
)

// Signer is the key in force.
type Signer interface {
	KeyID() string
	// Sign returns the Ed25519 signature of msg.
	Sign(msg []byte) ([]byte, error)
}

// waiting is a key that may not be there yet.
type waiting interface {
	// Ready says why it cannot sign now.
	Ready() error
}

// Ready says why nothing can be attested now: the key is where nobody gets it.
func (a *Attester) Ready() error {
	if w, ok := a.cfg.Signer().(waiting); ok {
		return w.Ready()
	}
	return nil
}

// Config wires an Attester.
type Config struct {
	DB      *store.DB
	Signer  func() Signer // asked anew for each attestation: keys rotate
	StateID string        // of the daemon: the audience that approvers sign for
}

// Attester signs and keeps attestations.
type Attester struct {
	cfg   Config
	shelf *pack.Shelf // envelopes of one tool are much alike

	mu     sync.Mutex
	signed map[palyra.ID]kept // that Apply has not kept yet
}

// New returns an Attester.
func New(cfg Config) (*Attester, error) {
	if cfg.DB == nil || cfg.Signer == nil {
		return nil, errors.New("attest: new: a part is missing")
	}
	return &Attester{cfg: cfg, shelf: pack.NewShelf("attestation_bases"), signed: map[palyra.ID]kept{}}, nil
}

// Attest signs a predicate in the daemon's name. It does not keep it: Apply does, together with the finished line.
func (a *Attester) Attest(ctx context.Context, p palyra.Predicate) (palyra.Attestation, error) {
	p.StateID = a.cfg.StateID
	att, raw, err := sign(ctx, a.cfg.Signer(), p)
	if err == nil {
		a.prepare(att, raw, alikeAs(p.Tool, p.Principal))
	}
	return att, err
}

// Sign signs a predicate with a key. An execution_sha256 that is missing is
// filled in, one that is wrong is an error.
func Sign(ctx context.Context, key Signer, p palyra.Predicate) (palyra.Attestation, error) {
	att, _, err := sign(ctx, key, p)
	return att, err
}

// sign returns the text of the envelope as well.
func sign(ctx context.Context, key Signer, p palyra.Predicate) (palyra.Attestation, []byte, error) {
	payload, p, err := encodeStatement(p)
	if err != nil {
		return palyra.Attestation{}, nil, fmt.Errorf("attest: sign: %w", err)
	}
	if key == nil {
		return palyra.Attestation{}, nil, errors.New("attest: sign: there is no key")
	}
	signer, err := dsse.NewEnvelopeSigner(signing{key})
	if err != nil {
		return palyra.Attestation{}, nil, fmt.Errorf("attest: sign: %w", err)
	}
	signed, err := signer.SignPayload(ctx, palyra.PayloadType, payload)
	if err != nil {
		return palyra.Attestation{}, nil, fmt.Errorf("attest: sign: %w", err)
	}
	env := palyra.Envelope{PayloadType: signed.PayloadType, Payload: signed.Payload}
	for _, s := range signed.Signatures {
		env.Signatures = append(env.Signatures, palyra.EnvelopeSignature{KeyID: s.KeyID, Sig: s.Sig})
	}
	raw, err := textOf(env)
	if err != nil {
		return palyra.Attestation{}, nil, fmt.Errorf("attest: sign: %w", err)
	}
	return palyra.Attestation{ID: p.AttestationID, Call: p.CallID, Digest: palyra.SumBytes(raw), Envelope: env, Predicate: p}, raw, nil
}

// signing is a Signer as the DSSE library wants it.
type signing struct{ Signer }

func (s signing) Sign(_ context.Context, data []byte) ([]byte, error) { return s.Signer.Sign(data) }

func (s signing) KeyID() (string, error) { return s.Signer.KeyID(), nil }
