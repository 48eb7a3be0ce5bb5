package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra"
	"palyra/internal/attest"
	"palyra/internal/attest/attesttest"
	"palyra/internal/identity"
	"palyra/internal/journal"
	"palyra/internal/keyring"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// The samples name keys as the real keepers of keys do.
func TestKeyNames(t *testing.T) {
	pub := key(t, attesttest.Ada.Public())
	if got, want := attesttest.Ada.OperatorID(), identity.KeyID(pub); got != want {
		t.Errorf("operator's key %s, want %s", got, want)
	}
	if got, want := attesttest.Ada.KeyID(), keyring.KeyID(pub); got != want || keyID(pub) != want {
		t.Errorf("daemon's key %s and %s, want %s", got, keyID(pub), want)
	}
}

// A daemon's keys, journal and attestations, put together as a daemon does, are
// checked with nothing but the trust file, also across a rotation.
func TestRealKeys(t *testing.T) {
	dir := t.TempDir()
	engine, err := sqlite.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, keyring.Schema(), journal.Schema(), attest.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ring, err := keyring.Open(t.Context(), keyring.Config{Dir: filepath.Join(dir, "keys"), DB: db, Name: "palyra/test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.New(t.Context(), journal.Config{DB: db, Signer: ring.Signer(keyring.Journal)})
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Attach(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	ring.OnRotate(func(use palyra.KeyUse) {
		if use == keyring.Journal {
			if err := j.SetSigner(ring.Signer(use)); err != nil {
				t.Error(err)
			}
		}
	})
	a, err := attest.New(attest.Config{
		DB: db, StateID: attesttest.StateID,
		Signer: func() attest.Signer { return ring.Signer(keyring.Attestation) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var evidence [][]byte
	gather := func() {
		p := attesttest.NewRun().Predicate
		p.OutcomeDigest = palyra.SumBytes(nil)
		att, err := a.Attest(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		envelope, _ := json.Marshal(att.Envelope)
		var export bytes.Buffer
		if _, err := j.Export(t.Context(), &export, 0, 0); err != nil {
			t.Fatal(err)
		}
		evidence = append(evidence, envelope, export.Bytes())
	}
	gather()
	for _, use := range keyring.Uses() {
		if _, err := ring.Rotate(t.Context(), use, "user:ada"); err != nil {
			t.Fatal(err)
		}
	}
	gather()
	raw, err := ring.Export()
	if err != nil {
		t.Fatal(err)
	}
	trust := filepath.Join(dir, "trust.json")
	if err := os.WriteFile(trust, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, text := range evidence {
		if code, out, errs := runs(t, text, "--key", trust); code != 0 {
			t.Errorf("evidence %d: exit %d: %s%s", i, code, out, errs)
		}
		if code, _, _ := runs(t, text, "--key", attesttest.Daemon.Public()); code != 1 {
			t.Errorf("evidence %d: exit %d with a stranger's key", i, code)
		}
	}
	if got := len(ring.List()); got != 4 {
		t.Errorf("%d keys", got)
	}
}
