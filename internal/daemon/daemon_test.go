package daemon

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/bootclock"
	"palyra/internal/config"
	"palyra/internal/store"
)

func open(t *testing.T, home string) (*Daemon, error) {
	t.Helper()
	cfg, err := config.Load(config.Options{Home: home, Env: []string{}, Flags: map[string]string{
		"policy.preset": "ask",
		"process.dir":   filepath.Join(t.TempDir(), "cells"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return New(t.Context(), Config{Settings: cfg, Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func home(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFirstStartMakesOneOwner(t *testing.T) {
	dir := home(t)
	var ids []string
	for range 2 {
		d, err := open(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		ops, err := d.access.Operators(t.Context())
		if err != nil || len(ops) != 1 || ops[0].Role != palyra.RoleOwner {
			t.Fatalf("%+v, %v", ops, err)
		}
		ids = append(ids, ops[0].KeyID+d.stateID)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("the second start made another owner or state: %v", ids)
	}
	info, err := os.Stat(filepath.Join(dir, "operator.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info, err)
	}
}

func TestOwnerKeyLeftByACrashIsUsed(t *testing.T) {
	dir := home(t)
	d, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	ops, _ := d.access.Operators(t.Context())
	_ = d.Close()
	for _, f := range []string{"state.db", "state.db-wal", "state.db-shm"} { // the record was lost, the file kept
		_ = os.Remove(filepath.Join(dir, f))
	}
	if err := os.RemoveAll(filepath.Join(dir, "keys")); err != nil {
		t.Fatal(err)
	}
	d, err = open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	again, _ := d.access.Operators(t.Context())
	if again[0].KeyID != ops[0].KeyID {
		t.Errorf("another key was made: %s, %s", again[0].KeyID, ops[0].KeyID)
	}
}

func TestSecondDaemonIsRefusedAndHarmless(t *testing.T) {
	dir := home(t)
	d, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	_, err = open(t, dir)
	if e := palyra.AsError(err); e.Reason != palyra.ReasonSecondDaemon || e.Remedy == "" {
		t.Fatalf("%v", err)
	}
	if _, err := d.journal.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestRunServesUntilShutdown(t *testing.T) {
	d, err := open(t, home(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("a stop in good order: %v", err)
	}
}

func TestStatusAndPolicy(t *testing.T) {
	d := testDaemon(t)
	st, err := statusPart{d, "a", "o", func(palyra.Principal) {}}.Status(t.Context())
	if err != nil || st.StateID == "" || st.Separation != palyra.SeparationNone || st.JournalSize == 0 || !st.Bundle.Valid() {
		t.Fatalf("%+v, %v", st, err)
	}
	p, err := policyPart{d.explainer(), d}.Policy(t.Context())
	if err != nil || len(p.Files) == 0 || p.Bundle != st.Bundle {
		t.Fatalf("%+v, %v", p, err)
	}
	digest, snap, err := policyPart{d.explainer(), d}.Snapshot(t.Context(), st.Snapshot)
	if err != nil || digest != st.Snapshot || snap.MaxCallsPerRun != 64 {
		t.Errorf("%s %+v, %v", digest, snap, err)
	}
	if _, _, err := (policyPart{d.explainer(), d}).Snapshot(t.Context(), palyra.SumBytes(nil)); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("an unknown snapshot: %v", err)
	}
}

func TestExplain(t *testing.T) {
	d := testDaemon(t)
	part := policyPart{d.explainer(), d}
	work := t.TempDir()
	prop := palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
		Tool:     "palyra.fs.write", Workspace: work,
		Arguments: json.RawMessage(`{"path":"a","content":"b"}`), NoWait: true,
	}
	imagined, err := part.Explain(t.Context(), "", prop)
	if err != nil || imagined.Verdict.Effect != palyra.Ask || len(imagined.Lines) == 0 {
		t.Fatalf("%+v, %v", imagined, err)
	}
	out, err := d.path.calls.Call(t.Context(), prop, palyra.Watch{})
	if err != nil || out.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, id := range []palyra.ID{palyra.ID(out.CallID), palyra.ID(out.ApprovalID)} {
		why, err := part.Explain(t.Context(), id, palyra.Proposal{})
		if err != nil || why.PlanDigest != out.PlanDigest || why.Verdict.Effect != palyra.Ask {
			t.Errorf("%s: %+v, %v", id, why, err)
		}
	}
	prop.Tool = "palyra.none"
	refused, err := d.path.calls.Call(t.Context(), prop, palyra.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	if why, err := part.Explain(t.Context(), palyra.ID(refused.CallID), palyra.Proposal{}); err != nil || why.Layer != palyra.LayerCatalog ||
		why.Reason != refused.Reason ||
		why.Remedy != refused.Remedy || why.ReasonCode != palyra.ReasonUnknownTool || why.Verdict.Effect != palyra.Deny {
		t.Errorf("a call that policy never saw: %+v, %v", why, err)
	}
	if _, err := part.Explain(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", palyra.Proposal{}); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no call: %v", err)
	}
}

func TestExportTakesNoFilter(t *testing.T) {
	d := testDaemon(t)
	err := deskPart{d.desk, d}.Export(t.Context(), io.Discard, "ndjson", palyra.ApprovalFilter{Principal: "agent:x"}, "user:me")
	if palyra.CodeOf(err) != palyra.Invalid {
		t.Error(err)
	}
	if err := (deskPart{d.desk, d}).Export(t.Context(), io.Discard, "ndjson", palyra.ApprovalFilter{}, "user:me"); err != nil {
		t.Error(err)
	}
}

func TestBootClock(t *testing.T) {
	id, up := bootclock.Now()
	if id == "" || up <= 0 {
		t.Errorf("boot clock %q %v", id, up)
	}
}

// A key that somebody wrote into the table past the daemon decides nothing: the
// daemon does not start on it.
func TestForeignOperatorRowIsRefused(t *testing.T) {
	for name, change := range map[string]string{
		"added":   `INSERT INTO access_operators SELECT 'op-foreign', seq+1, 'user:mallory', role, public_key, separation, -1, added_at, removed_at FROM access_operators LIMIT 1`,
		"changed": `UPDATE access_operators SET separation = 'passphrase'`,
		"removed": `UPDATE access_operators SET removed_at = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := home(t)
			d, err := open(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			err = d.db.Write(t.Context(), "test", func(tx *store.Tx) error {
				n, err := tx.Exec(change)
				if err == nil && n != 1 {
					t.Errorf("%d rows", n)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = d.Close()
			if _, err := open(t, dir); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
				t.Errorf("started: %v", err)
			}
		})
	}
}
