package bubble

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/seal"
	"palyra/internal/stage"
)

func hold(stage.Found) stage.Ruling { return stage.RulingHold }

// holds runs a script whose changes are held.
func (s *site) holds(b *Backend, call palyra.CallID, script string) sandbox.HeldRun {
	s.t.Helper()
	j := s.job("/bin/sh", "-c", script)
	j.Call, j.Weigh, j.Seals = call, hold, seal.Default
	if x := runJob(s.t, b, j); x.Code != 0 || !x.Effects.Held {
		s.t.Fatalf("%+v: %s", x, s.printed())
	}
	return sandbox.HeldRun{Call: call, Workspace: s.workspace, Seals: j.Seals}
}

// What is looked for when the changes of a run are kept at its end is looked for when they are kept later: sealed names
// in git's index and commits, and sealed paths that come to be in the workspace.
func TestBackendHeldLikeDirect(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		left   []palyra.Remnant
		made   string
	}{
		"a sealed name in the index": {
			`git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),.vscode/tasks.json`,
			[]palyra.Remnant{{Kind: palyra.RemnantCommitted, Path: ".vscode/tasks.json"}},
			"",
		},
		"a directory that becomes a repository": {`mkdir -p bare/refs bare/hooks && echo evil > bare/hooks/pre-commit`, nil, "bare"},
	} {
		t.Run(name, func(t *testing.T) {
			staged(t, 0, func(t *testing.T, b *Backend, s *site) {
				s.git("init", "-q", "-b", "main")
				s.git("commit", "-q", "--allow-empty", "-m", "0")
				s.dir("bare/objects")
				s.file("bare/HEAD", "ref: refs/heads/x\n")
				run := s.holds(b, "held", c.script)
				x, err := b.Settle(t.Context(), run, stage.RulingKeep)
				if err != nil || x.Effects.Kept == 0 {
					t.Fatalf("%+v, %v", x, err)
				}
				if diff := cmp.Diff(c.left, x.Remnants); diff != "" {
					t.Error(diff)
				}
				if c.made != "" && !slices.ContainsFunc(x.Quarantined, func(p string) bool { return filepath.Dir(p) == c.made || p == c.made }) {
					t.Errorf("in quarantine are %q", x.Quarantined)
				}
				if exists(filepath.Join(s.workspace, "bare/hooks/pre-commit")) {
					t.Error("a hook is in the workspace")
				}
			})
		})
	}
}

// A backend that can run nothing finds what an earlier one held, and settles it.
func TestBackendSettlesWhereNothingRuns(t *testing.T) {
	c := configOf(t)
	before := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	s.staged = true
	s.file("stays", "x")
	keep, drop := s.holds(before, "keep", "echo new > kept"), s.holds(before, "drop", "rm stays")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	c.Bwrap = filepath.Join(c.Dir, "none")
	b := openBackend(t, c)
	if _, err := b.Probe(t.Context(), palyra.Limits{}); err == nil {
		t.Fatal("it can be used")
	}
	if err := b.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why := b.Stageable(t.Context(), s.workspace, s.who.UID, s.who.GID); why == "" {
		t.Error("runs could be staged")
	}
	if x, err := b.Settle(t.Context(), keep, stage.RulingKeep); err != nil || x.Effects.Kept != 1 || !exists(filepath.Join(s.workspace, "kept")) {
		t.Errorf("kept: %+v, %v", x, err)
	}
	if x, err := b.Settle(t.Context(), drop, stage.RulingDrop); err != nil || !x.Effects.Dropped || !exists(filepath.Join(s.workspace, "stays")) {
		t.Errorf("dropped: %+v, %v", x, err)
	}
}

// Where the place of held changes cannot be opened, nobody is told that they are gone.
func TestBackendSettleWithoutAPlace(t *testing.T) {
	c := configOf(t)
	if err := os.WriteFile(c.Stages, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	_, err = b.Settle(t.Context(), sandbox.HeldRun{Call: "call", Workspace: tempDir(t)}, stage.RulingKeep)
	if e := palyra.AsError(err); errors.As(err, new(*stage.NotHeldError)) || e.Code != palyra.Unavailable || e.Remedy == "" {
		t.Errorf("%v", err)
	}
}
