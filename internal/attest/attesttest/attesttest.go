// Package attesttest makes attestations for tests: genuine ones, forgeries that a dishonest daemon could sign, and
// every small change of a text. The two verifiers, attest.Verify and cmd/palyra-verify, are held to the same
// samples, which define what a verifier has to accept and to refuse.
//
// Keys come from fixed seeds; nothing here is fit for anything but tests.
package attesttest

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/attest"
)

// Key is a key pair of a test.
type Key struct{ private ed25519.PrivateKey }

// NewKey returns the key of a seed.
func NewKey(seed string) Key {
	h := sha256.Sum256([]byte(seed))
	return Key{ed25519.NewKeyFromSeed(h[:])}
}

// KeyID implements attest.Signer.
func (k Key) KeyID() string {
	h := sha256.Sum256(k.private.Public().(ed25519.PublicKey))
	return hex.EncodeToString(h[:8])
}

// OperatorID is the key's id as an approver's.
func (k Key) OperatorID() string {
	h := sha256.Sum256(k.private.Public().(ed25519.PublicKey))
	return "op-" + hex.EncodeToString(h[:16])
}

// Sign implements attest.Signer.
func (k Key) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(k.private, msg), nil }

// Public returns the public half as base64.
func (k Key) Public() string {
	return base64.StdEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

// The keys of the samples.
var (
	Daemon = NewKey("daemon")
	Ada    = NewKey("ada")
	Bob    = NewKey("bob")
)

// StateID names the daemon of the samples: approvers sign for it.
const StateID = "01JCSTATE00000000000000000"

// Trust believes Daemon, Ada and Bob.
func Trust() attest.Trust {
	return attest.Trust{
		Keys:         []palyra.Key{{ID: Daemon.KeyID(), Use: "attestation", PublicKey: Daemon.Public()}},
		OperatorKeys: []string{Ada.Public(), Bob.Public(), AdasPasskey.Public(), BobsPasskey.Public()},
	}
}

// SampleRun is one run as a daemon knows it, before it is signed.
type SampleRun struct {
	Predicate palyra.Predicate
	Outcome   palyra.Outcome
	Stdout    []byte
	Stderr    []byte
}

// NewRun returns a run that Ada allowed.
func NewRun() *SampleRun {
	plan := palyra.SumBytes([]byte("plan"))
	r := &SampleRun{Stdout: []byte("hello <world> & \"you\"\n"), Stderr: []byte("r\u00e9sum\u00e9 \u2028 line\n")}
	r.Outcome = palyra.Outcome{
		Outcome: palyra.OutcomeFinished, Tool: "palyra.process.run", ExitCode: 3,
		Output:    json.RawMessage(`{"a":[1,2.50,"\u003c",{"attestation":{"payloadType":""}}]}`),
		SessionID: "01JCSESSION0000000000000000", CallID: "01JCCALL000000000000000000", ApprovalID: "01JCAPPROVAL00000000000000",
		GrantID: "01JCGRANT00000000000000000", PlanDigest: plan, JournalPosition: 41,
	}
	at := time.Date(2026, 11, 15, 12, 0, 0, 123456789, time.UTC)
	r.Predicate = palyra.Predicate{
		AttestationID: "01JCATTEST0000000000000000", StateID: StateID, CallID: r.Outcome.CallID, SessionID: r.Outcome.SessionID,
		Principal: "agent:local", Surface: palyra.SurfaceCLI,
		Tool: r.Outcome.Tool, PlanDigest: plan, InputDigest: palyra.SumBytes([]byte("input")), Verdict: palyra.Ask,
		Policies:     []string{"ask-writes"},
		BundleDigest: palyra.SumBytes([]byte("bundle")), SnapshotDigest: palyra.SumBytes([]byte("snapshot")),
		Separation: palyra.SeparationPassphrase,
		GrantID:    r.Outcome.GrantID, LeaseID: "01JCLEASE00000000000000000", Tier: palyra.TierC, Executor: "sandbox_tier_c_linux_bubblewrap",
		Enforcement: palyra.Enforcement{
			Mode: "strict", Mechanisms: []string{"bwrap", "seccomp"},
			Limits: map[string]palyra.Hold{"wall": "context", "memory": "rlimit"},
		},
		Limits: palyra.Limits{WallMS: 120000}, Outcome: palyra.OutcomeFinished, ExitCode: 3, Usage: palyra.Usage{WallMS: 12, BytesOut: 40},
		OutputDigest: palyra.SumBytes(r.Outcome.Output), Egress: []palyra.EgressFlow{
			{Door: "connect", Host: "example.org", Port: 443, Address: "192.0.2.7", In: 1, Out: 2, Verdict: palyra.FlowAllowed},
		},
		Quarantined: []palyra.PathText{},
		StartedAt:   palyra.Time(at), FinishedAt: palyra.Time(at.Add(time.Second)),
		Granted: palyra.Position{Seq: 41, Leaf: palyra.SumBytes([]byte("leaf"))},
		Decision: &palyra.Decision{
			Approval: r.Outcome.ApprovalID, Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, Lease: "01JCLEASE00000000000000000",
			Reason: "go on", By: "user:ada", Method: palyra.MethodCLI, At: at, Digest: plan, Separation: palyra.SeparationPassphrase,
			Terms: &palyra.Terms{
				Principal: "agent:local", Session: r.Outcome.SessionID, Tool: r.Outcome.Tool, PlanDigest: plan,
				Workspace: "/work", Program: "/bin/sh", TierFloor: palyra.TierC, Hosts: []string{"example.org"},
			},
		},
	}
	r.Vote(Ada, "user:ada", nil)
	return r
}

// Vote adds an answer as its approver signs it; change, if not nil, spoils or varies it before the signature.
func (r *SampleRun) Vote(key Key, by palyra.Principal, change func(*palyra.Vote)) {
	d := r.Predicate.Decision
	v := palyra.Vote{
		ID: palyra.ID("01JCVOTE" + fmt.Sprintf("%018d", len(d.Votes))), Approval: d.Approval, Answer: palyra.AnswerAllow,
		Scope: palyra.ScopeTimeboxed,
		TTLMS: 1800000, Uses: 9007199254740993, Reason: "go on", By: by, Method: palyra.MethodCLI, At: d.At, Digest: d.Digest,
		Separation: palyra.SeparationPassphrase,
	}
	v.Signature = palyra.Signature{
		Intent: palyra.Intent{
			Audience: StateID, Method: "palyra.v1.ApprovalsService/DecideApproval", PlanDigest: d.Digest,
			Nonce: "AAAAAAAAAAAAAAAAAAAAAA", Time: palyra.Time(d.At), KeyID: key.OperatorID(),
		},
		Fields: map[string]any{
			"approval_id": string(v.Approval), "answer": "allow", "scope": "timeboxed", "ttl_ms": int64(1800000),
			"uses":   json.Number("9007199254740993"),
			"reason": "go on", "plan_digest": string(d.Digest), "method": "cli",
		},
		PublicKey: key.Public(),
	}
	if change != nil {
		change(&v)
	}
	if v.Signature.Intent.Body == "" {
		v.Signature.Intent.Body = must(palyra.IntentBody(v.Signature.Fields))
	}
	if v.Signature.Sig == "" {
		sig, _ := key.Sign(must(v.Signature.Intent.Bytes()))
		v.Signature.Sig = base64.StdEncoding.EncodeToString(sig)
	}
	d.Votes = append(d.Votes, v)
}

// Revote replaces the answers by one that change varied.
func (r *SampleRun) Revote(change func(*palyra.Vote)) {
	r.Predicate.Decision.Votes = nil
	r.Vote(Ada, "user:ada", change)
}

// Seal fills in the digests that are still missing and signs the run. It
// returns the texts of the outcome and of the envelope.
func (r *SampleRun) Seal() (outcome, envelope []byte) {
	p, o := r.Predicate, r.Outcome
	if o.Stdout == "" && o.StdoutB64 == "" && o.Stderr == "" && o.StderrB64 == "" {
		o.SetStreams(r.Stdout, r.Stderr)
	}
	for _, d := range []struct {
		at  *palyra.Digest
		sum palyra.Digest
	}{{&p.StdoutDigest, palyra.SumBytes(r.Stdout)}, {&p.StderrDigest, palyra.SumBytes(r.Stderr)}, {&p.OutcomeDigest, must(o.BodyDigest())}} {
		if *d.at == "" {
			*d.at = d.sum
		}
	}
	att := must(attest.Sign(context.Background(), Daemon, p))
	o.Attestation = &att.Envelope
	return must(o.Marshal()), must(json.Marshal(att.Envelope))
}

// Envelope signs any payload, as a daemon gone bad could.
func Envelope(payload []byte) []byte {
	return must(json.Marshal(EnvelopeOf(Daemon, palyra.PayloadType, payload)))
}

// EnvelopeOf signs any payload of any type with any key.
func EnvelopeOf(key Key, payloadType string, payload []byte) palyra.Envelope {
	pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
	sig, _ := key.Sign([]byte(pae))
	return palyra.Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
		Signatures: []palyra.EnvelopeSignature{{KeyID: key.KeyID(), Sig: base64.StdEncoding.EncodeToString(sig)}},
	}
}

// Payload returns the payload of an envelope.
func Payload(envelope []byte) []byte {
	var env palyra.Envelope
	must(0, json.Unmarshal(envelope, &env))
	return must(base64.StdEncoding.DecodeString(env.Payload))
}

// must is for samples that cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
