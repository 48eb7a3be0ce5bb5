package attest_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"palyra"
	"palyra/internal/attest"
	"palyra/internal/attest/attesttest"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

func open(t *testing.T, signer func() attest.Signer) (*attest.Attester, *store.DB) {
	t.Helper()
	engine, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, attest.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	a, err := attest.New(attest.Config{DB: db, Signer: signer, StateID: attesttest.StateID})
	if err != nil {
		t.Fatal(err)
	}
	return a, db
}

func daemon() attest.Signer { return attesttest.Daemon }

func predicate() palyra.Predicate {
	p := attesttest.NewRun().Predicate
	p.OutcomeDigest = palyra.SumBytes([]byte("outcome"))
	return p
}

func TestAttest(t *testing.T) {
	a, _ := open(t, daemon)
	att, err := a.Attest(t.Context(), predicate())
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(att.Envelope)
	r, err := attest.Verify(raw, attesttest.Trust())
	if err != nil || r.Digest != att.Digest || r.AttestationID != att.ID || r.CallID != att.Call {
		t.Errorf("%+v %v", r, err)
	}
	execution, _ := predicate().Execution()
	if att.Predicate.ExecutionSHA256 != execution {
		t.Errorf("execution %s, want %s", att.Predicate.ExecutionSHA256, execution)
	}
}

// The attester names its own daemon, whatever the predicate says: an answer that
// another daemon collected does not stand.
func TestAttestNamesTheDaemon(t *testing.T) {
	_, db := open(t, daemon)
	for _, c := range []struct {
		state string
		ok    bool
	}{{attesttest.StateID, true}, {"01JCSTATE00000000000000001", false}} {
		a, err := attest.New(attest.Config{DB: db, Signer: daemon, StateID: c.state})
		if err != nil {
			t.Fatal(err)
		}
		att, err := a.Attest(t.Context(), predicate())
		if err != nil || att.Predicate.StateID != c.state {
			t.Fatalf("%s: named %q, %v", c.state, att.Predicate.StateID, err)
		}
		raw, _ := json.Marshal(att.Envelope)
		if _, err := attest.Verify(raw, attesttest.Trust()); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.state, err)
		}
	}
}

// The key in force is asked for each time.
func TestAttestAfterRotation(t *testing.T) {
	key := attesttest.Daemon
	a, _ := open(t, func() attest.Signer { return key })
	if _, err := a.Attest(t.Context(), predicate()); err != nil {
		t.Fatal(err)
	}
	key = attesttest.NewKey("second")
	att, err := a.Attest(t.Context(), predicate())
	if err != nil || att.Envelope.Signatures[0].KeyID != key.KeyID() {
		t.Errorf("%+v %v", att.Envelope.Signatures, err)
	}
}

// The libraries of the standards read what we write.
func TestForeignReaders(t *testing.T) {
	a, _ := open(t, daemon)
	att, err := a.Attest(t.Context(), predicate())
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(att.Envelope)
	var env dsse.Envelope
	if err := json.Unmarshal(raw, &env); err != nil {
		t.Fatal(err)
	}
	payload, err := env.DecodeB64Payload()
	if err != nil {
		t.Fatal(err)
	}
	var st intoto.Statement
	if err := protojson.Unmarshal(payload, &st); err != nil {
		t.Fatal(err)
	}
	if err := st.Validate(); err != nil {
		t.Error(err)
	}
	if st.GetType() != intoto.StatementTypeUri || st.GetPredicateType() != palyra.PredicateType ||
		"sha256:"+st.GetSubject()[0].GetDigest()["sha256"] != string(predicate().PlanDigest) {
		t.Errorf("statement %v", &st)
	}
}

type broken struct{ attesttest.Key }

func (broken) Sign([]byte) ([]byte, error) { return nil, errors.New("no key") }

func TestAttestRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*palyra.Predicate){
		"no id":               func(p *palyra.Predicate) { p.AttestationID = "" },
		"no call":             func(p *palyra.Predicate) { p.CallID = "" },
		"no plan":             func(p *palyra.Predicate) { p.PlanDigest = "" },
		"bad plan":            func(p *palyra.Predicate) { p.PlanDigest = "sha256:00" },
		"no outcome":          func(p *palyra.Predicate) { p.OutcomeDigest = "" },
		"another execution":   func(p *palyra.Predicate) { p.ExecutionSHA256 = palyra.SumBytes(nil) },
		"cannot be written":   func(p *palyra.Predicate) { p.Decision.Votes[0].Signature.Fields["x"] = make(chan int) },
		"number out of range": func(p *palyra.Predicate) { p.Decision.Votes[0].Signature.Fields["x"] = json.Number("1e5000") },
	} {
		p := predicate()
		spoil(&p)
		if att, err := attest.Sign(t.Context(), attesttest.Daemon, p); err == nil {
			t.Errorf("%s: signed as %v", name, att.Envelope)
		}
	}
	if _, err := attest.Sign(t.Context(), broken{}, predicate()); err == nil {
		t.Error("signed without a key")
	}
	if _, err := attest.Sign(t.Context(), nil, predicate()); err == nil {
		t.Error("signed without a signer")
	}
	if _, err := attest.New(attest.Config{}); err == nil {
		t.Error("made without its parts")
	}
}

func finished(att palyra.Attestation) palyra.CallFinished {
	return palyra.CallFinished{Call: att.Call, Attestation: att.Digest, AttestedAs: att.ID, Signed: att}
}

func TestKeepAndGet(t *testing.T) {
	a, db := open(t, daemon)
	att, err := a.Attest(t.Context(), predicate())
	if err != nil {
		t.Fatal(err)
	}
	call := &palyra.Call{ID: att.Call}
	keep := func(e palyra.Event) error {
		return db.Write(t.Context(), e.Kind(), func(tx *store.Tx) error { return a.Apply(tx, call, e) })
	}
	if err := keep(palyra.CallGranted{Call: call.ID}); err != nil {
		t.Errorf("another event: %v", err)
	}
	if _, err := a.Get(t.Context(), string(att.ID)); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("found before it was kept: %v", err)
	}
	if err := keep(finished(att)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{string(att.ID), string(att.Call), string(att.Digest)} {
		got, err := a.Get(t.Context(), id)
		if diff := cmp.Diff(att, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", id, err, diff)
		}
	}
	if err := keep(finished(att)); err == nil {
		t.Error("kept twice")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Get(ctx, string(att.ID)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestApplyRefusesWhatTheLineDoesNotName(t *testing.T) {
	a, db := open(t, daemon)
	att, err := a.Attest(t.Context(), predicate())
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*palyra.CallFinished){
		"nothing signed":  func(e *palyra.CallFinished) { e.Signed = palyra.Attestation{} },
		"another id":      func(e *palyra.CallFinished) { e.AttestedAs = "01JCATTEST0000000000000001" },
		"another call":    func(e *palyra.CallFinished) { e.Call = "01JCCALL000000000000000001" },
		"signed another":  func(e *palyra.CallFinished) { e.Signed.Call = "01JCCALL000000000000000001" },
		"another digest":  func(e *palyra.CallFinished) { e.Attestation = palyra.SumBytes(nil) },
		"envelope edited": func(e *palyra.CallFinished) { e.Signed.Envelope.Payload += "AAAA" },
	} {
		e := finished(att)
		spoil(&e)
		err := db.Write(t.Context(), e.Kind(), func(tx *store.Tx) error { return a.Apply(tx, &palyra.Call{ID: att.Call}, e) })
		if err == nil {
			t.Errorf("%s: kept", name)
		}
	}
	if _, err := a.Get(t.Context(), string(att.Call)); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("something was kept: %v", err)
	}
}

func BenchmarkAttest(b *testing.B) {
	p := predicate()
	for b.Loop() {
		if _, err := attest.Sign(b.Context(), attesttest.Daemon, p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	outcome, _ := attesttest.NewRun().Seal()
	trust := attesttest.Trust()
	for b.Loop() {
		if _, err := attest.Verify(outcome, trust); err != nil {
			b.Fatal(err)
		}
	}
}
