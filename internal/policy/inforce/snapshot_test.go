package inforce

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// tape is a journal that keeps what committed.
type tape struct {
	seq    int64
	events []palyra.Event
	err    error
}

func (j *tape) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	if j.err != nil {
		return palyra.Position{}, j.err
	}
	j.seq++
	tx.OnDone(func(ok bool) {
		if ok {
			j.events = append(j.events, e)
		}
	})
	return palyra.Position{Seq: j.seq}, nil
}

func keep(t *testing.T) (*Snapshots, *tape, *store.DB) {
	t.Helper()
	engine, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	j := &tape{}
	s, err := NewSnapshots(SnapshotsConfig{DB: db, Journal: j, Now: func() time.Time { return time.Unix(1, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return s, j, db
}

func rows(t *testing.T, db *store.DB, table string) (n int) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *store.Tx) error { return tx.Get("SELECT COUNT(*) FROM "+table, nil, &n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNewSnapshotsNeedsItsParts(t *testing.T) {
	if _, err := NewSnapshots(SnapshotsConfig{}); err == nil {
		t.Fatal("made without a store")
	}
}

func TestSnapshotsKeepEachOnce(t *testing.T) {
	s, j, db := keep(t)
	a := policytest.Open()
	a.ProcessRunner = map[string]any{
		"cpu": 1.5, "memory": 1 << 53, "big": 1e300, "hosts": []string{"a"}, "none": nil,
		"deep": map[string]any{"x": true},
	}
	b := a
	b.TimeoutMS = 7
	want := map[palyra.Digest]palyra.Snapshot{}
	for _, snap := range []palyra.Snapshot{a, b, {}, a} {
		d, err := s.Save(t.Context(), snap)
		if err != nil {
			t.Fatal(err)
		}
		if own, err := snap.Digest(); err != nil || own != d {
			t.Fatalf("digest %s, want %s (%v)", d, own, err)
		}
		want[d] = snap
	}
	if n := rows(t, db, "policy_snapshot"); n != 3 || len(want) != 3 || len(j.events) != 0 {
		t.Fatalf("%d rows for %d snapshots, %d journal lines", n, len(want), len(j.events))
	}
	for d := range want {
		got, err := s.Get(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := got.Digest(); err != nil || again != d {
			t.Errorf("%s came back as %s", d, again)
		}
	}
}

func TestSnapshotsSaveTogether(t *testing.T) {
	s, _, db := keep(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.Save(t.Context(), policytest.Open()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := rows(t, db, "policy_snapshot"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestSnapshotsMissing(t *testing.T) {
	s, _, _ := keep(t)
	if _, err := s.Get(t.Context(), "sha256:x"); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	if _, err := s.Bundle(t.Context(), "sha256:x"); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	if _, err := s.Active(t.Context()); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Save(ctx, policytest.Open()); err == nil {
		t.Error("saved for a caller who is gone")
	}
	if _, err := s.Save(t.Context(), palyra.Snapshot{WasmRuntime: map[string]any{"f": func() {}}}); err == nil {
		t.Error("saved what has no digest")
	}
}

// What was judged once can be judged again from what is kept.
func TestActivateAndJudgeAgain(t *testing.T) {
	s, j, db := keep(t)
	b := policytest.Defaults(t)
	e := policytest.Engine(t, b)
	if _, err := s.Activate(t.Context(), b, e.Snapshot(), Author{By: "user:ada"}); err != nil {
		t.Fatal(err)
	}
	v := e.Judge(t.Context(), policytest.Write(".git/config"))
	want := palyra.PolicyActivated{Bundle: v.Bundle, Snapshot: v.Snapshot, By: "user:ada"}
	if d := cmp.Diff([]palyra.Event{want}, j.events); d != "" {
		t.Fatal(d)
	}
	if got, err := s.Active(t.Context()); err != nil || got != (Activation{
		Number: 1, Bundle: v.Bundle, Snapshot: v.Snapshot, By: "user:ada",
		At: time.Unix(1, 0).UTC(),
	}) {
		t.Fatalf("active %+v, %v", got, err)
	}
	old, err := s.Bundle(t.Context(), v.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := s.Get(t.Context(), v.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	again, err := policy.New(policy.Config{Bundle: old, Snapshot: snap})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v, again.Judge(t.Context(), policytest.Write(".git/config"))); d != "" {
		t.Errorf("judged again: %s", d)
	}
	if rows(t, db, "policy_bundle") != 1 {
		t.Error("the bundle is not kept once")
	}
}

func TestActivateJournalsChangesOnly(t *testing.T) {
	s, j, db := keep(t)
	first, second := policytest.Defaults(t), policytest.Load(t, policytest.PermitAll)
	changed := policytest.Open()
	changed.TimeoutMS = 1
	for i, c := range []struct {
		b     *policy.Bundle
		snap  palyra.Snapshot
		lines int
	}{
		{first, policytest.Open(), 1},
		{first, policytest.Open(), 1},
		{first, changed, 2},
		{second, changed, 3},
		{second, changed, 3},
		{first, policytest.Open(), 4},
		{first, policytest.Open(), 4},
	} {
		if _, err := s.Activate(t.Context(), c.b, c.snap, Author{By: "user:ada"}); err != nil {
			t.Fatal(err)
		}
		if len(j.events) != c.lines {
			t.Fatalf("step %d: %d lines, want %d", i, len(j.events), c.lines)
		}
	}
	if rows(t, db, "policy_bundle") != 2 || rows(t, db, "policy_snapshot") != 3 || rows(t, db, "policy_activation") != 4 {
		t.Error("kept more or less than what was in force")
	}
}

// No journal line, no activation: nothing of it remains.
func TestActivateFailsWhole(t *testing.T) {
	s, j, db := keep(t)
	j.err = errors.New("disk full")
	if _, err := s.Activate(t.Context(), policytest.Defaults(t), policytest.Open(), Author{By: "user:ada"}); !errors.Is(err, j.err) {
		t.Fatalf("%v", err)
	}
	for _, table := range []string{"policy_bundle", "policy_snapshot", "policy_activation"} {
		if n := rows(t, db, table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
	if _, err := s.Activate(t.Context(), nil, policytest.Open(), Author{By: "user:ada"}); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("no bundle: %v", err)
	}
	if _, err := s.Activate(t.Context(), policytest.Defaults(t), policytest.Open(), Author{By: ""}); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("nobody: %v", err)
	}
}

// What was changed behind our back is not handed out.
func TestSnapshotsNoticeDamage(t *testing.T) {
	s, _, db := keep(t)
	b := policytest.Defaults(t)
	if _, err := s.Activate(t.Context(), b, policytest.Open(), Author{By: "user:ada"}); err != nil {
		t.Fatal(err)
	}
	active, err := s.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"max_calls_per_run":1}`, `{}`, `{`, ``} {
		err = db.Write(t.Context(), "test", func(tx *store.Tx) error {
			_, err := tx.Exec("UPDATE policy_snapshot SET body = ?", body)
			if err == nil {
				_, err = tx.Exec("UPDATE policy_bundle SET files = ?", strings.ReplaceAll(body, "1", `"permit"`))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), active.Snapshot); err == nil {
			t.Errorf("a snapshot with body %q", body)
		}
		_, err := s.Bundle(t.Context(), active.Bundle)
		if err == nil || strings.Contains(body, "}") && palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("a bundle with files %q: %v", body, err)
		}
	}
}
