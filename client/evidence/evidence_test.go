package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra"
	"palyra/client/evidence"
	"palyra/internal/approval"
	"palyra/internal/attest"
	"palyra/internal/attest/attesttest"
	"palyra/internal/journal"
	"palyra/internal/keyring"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/ulid"
)

// daemon is the parts that make evidence.
type daemon struct {
	t       *testing.T
	dir     string
	ring    *keyring.Ring
	journal *journal.Journal
	desk    *approval.Desk
	trust   evidence.Trust
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: t.TempDir()}
	engine, err := sqlite.Open(filepath.Join(d.dir, "state.db"))
	d.must(err)
	db, err := store.Open(t.Context(), engine, keyring.Schema(), journal.Schema(), approval.Schema())
	d.must(err)
	t.Cleanup(func() { _ = db.Close() })
	keys := filepath.Join(d.dir, "keys")
	d.must(os.Mkdir(keys, 0o700))
	d.ring, err = keyring.Open(t.Context(), keyring.Config{Dir: keys, Name: "palyra/01TEST", DB: db, Now: time.Now})
	d.must(err)
	d.journal, err = journal.New(t.Context(), journal.Config{DB: db, Signer: d.ring.Signer("journal")})
	d.must(err)
	t.Cleanup(func() { _ = d.journal.Close(context.Background()) })
	d.must(d.ring.Attach(t.Context(), d.journal))
	d.desk, err = approval.New(approval.Config{
		DB: db, Journal: d.journal, Now: time.Now, Boot: func() (string, time.Duration) { return "boot", time.Hour },
		NewID: func() palyra.ID { return palyra.ID(ulid.New(time.Now())) },
	})
	d.must(err)
	_, err = d.journal.Record(t.Context(), palyra.DaemonStarted{Version: "1", Instance: "I"})
	d.must(err)
	raw, err := d.ring.Export()
	d.must(err)
	d.trust, err = evidence.ParseTrust(raw)
	d.must(err)
	return d
}

func (d *daemon) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// changed returns raw with one byte of its middle changed.
func changed(raw []byte) []byte {
	out := bytes.Clone(raw)
	out[len(out)/2] ^= 1
	return out
}

// check runs one kind of evidence past the right trust, past another daemon's,
// and changed.
func check(t *testing.T, raw []byte, right, wrong evidence.Trust, verify func([]byte, evidence.Trust) error) {
	t.Helper()
	if err := verify(raw, right); err != nil {
		t.Errorf("genuine evidence: %v", err)
	}
	if verify(raw, wrong) == nil {
		t.Error("another daemon's keys fit")
	}
	if verify(raw, evidence.Trust{}) == nil {
		t.Error("no keys fit")
	}
	if verify(changed(raw), right) == nil {
		t.Error("a changed byte was not noticed")
	}
	if verify(nil, right) == nil {
		t.Error("nothing was taken for evidence")
	}
}

func TestEvidence(t *testing.T) {
	d, other := newDaemon(t), newDaemon(t)

	p := attesttest.NewRun().Predicate
	p.StdoutDigest, p.StderrDigest, p.OutcomeDigest = palyra.SumBytes(nil), palyra.SumBytes(nil), palyra.SumBytes([]byte("body"))
	att, err := attest.Sign(t.Context(), d.ring.Signer("attestation"), p)
	d.must(err)
	envelope, err := json.Marshal(att.Envelope)
	d.must(err)
	check(t, envelope, d.trust, other.trust, func(b []byte, tr evidence.Trust) error {
		_, err := evidence.VerifyAttestation(b, tr)
		return err
	})
	if _, err := evidence.VerifyAttestation(envelope, d.trust.WithOperators(attesttest.Ada.Public())); err != nil {
		t.Errorf("with the approver's key: %v", err)
	}
	if _, err := evidence.VerifyAttestation(envelope, d.trust.WithOperators(attesttest.Bob.Public())); err == nil {
		t.Error("an approver whom nobody knows was believed")
	}

	proof, err := d.journal.Proof(t.Context(), 1)
	d.must(err)
	raw, err := json.Marshal(proof)
	d.must(err)
	check(t, raw, d.trust, other.trust, func(b []byte, tr evidence.Trust) error {
		_, err := evidence.VerifyProof(b, tr)
		return err
	})

	var out bytes.Buffer
	_, err = d.journal.Export(t.Context(), &out, 0, 0)
	d.must(err)
	check(t, out.Bytes(), d.trust, other.trust, func(b []byte, tr evidence.Trust) error {
		path := filepath.Join(t.TempDir(), "segment")
		d.must(os.WriteFile(path, b, 0o600))
		_, err := evidence.VerifyJournal(t.Context(), path, tr, nil)
		return err
	})

	out.Reset()
	_, err = d.desk.Export(t.Context(), &out, approval.NDJSON, "user:alice", d.ring.Signer("journal"))
	d.must(err)
	check(t, out.Bytes(), d.trust, other.trust, func(b []byte, tr evidence.Trust) error {
		_, err := evidence.VerifyApprovals(bytes.NewReader(b), tr)
		return err
	})
}

// A bare key checks attestations and approvals, a verifier line the journal.
func TestEvidenceByOneKey(t *testing.T) {
	d := newDaemon(t)
	trust := func(use palyra.KeyUse, line bool) evidence.Trust {
		for _, k := range d.ring.List() {
			text := k.PublicKey
			if line {
				text = k.Verifier
			}
			if tr, ok := evidence.ParseKey(text); ok && k.Use == use {
				return tr
			}
		}
		t.Fatalf("no key for %s", use)
		return evidence.Trust{}
	}
	p := attesttest.NewRun().Predicate
	p.StdoutDigest, p.StderrDigest, p.OutcomeDigest = palyra.SumBytes(nil), palyra.SumBytes(nil), palyra.SumBytes([]byte("body"))
	att, err := attest.Sign(t.Context(), d.ring.Signer("attestation"), p)
	d.must(err)
	envelope, err := json.Marshal(att.Envelope)
	d.must(err)
	check(t, envelope, trust("attestation", false), trust("journal", false), func(b []byte, tr evidence.Trust) error {
		_, err := evidence.VerifyAttestation(b, tr)
		return err
	})
	proof, err := d.journal.Proof(t.Context(), 1)
	d.must(err)
	raw, err := json.Marshal(proof)
	d.must(err)
	check(t, raw, trust("journal", true), trust("journal", false), func(b []byte, tr evidence.Trust) error {
		_, err := evidence.VerifyProof(b, tr)
		return err
	})
	var out bytes.Buffer
	_, err = d.desk.Export(t.Context(), &out, approval.NDJSON, "user:alice", d.ring.Signer("journal"))
	d.must(err)
	check(t, out.Bytes(), trust("journal", false), trust("attestation", false), func(b []byte, tr evidence.Trust) error {
		_, err := evidence.VerifyApprovals(bytes.NewReader(b), tr)
		return err
	})
}

func TestParseTrustRefuses(t *testing.T) {
	d := newDaemon(t)
	raw, err := d.ring.Export()
	d.must(err)
	key := d.ring.List()[0].PublicKey
	swapped := bytes.Replace(raw, []byte(key), []byte(newDaemon(t).ring.List()[0].PublicKey), 1)
	for name, bad := range map[string][]byte{"nothing": nil, "text": []byte("trust me"), "another's key": swapped} {
		if _, err := evidence.ParseTrust(bad); err == nil {
			t.Errorf("%s was believed", name)
		}
	}
}
