package bubble

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/template"
	"palyra/internal/seal"
)

// TestBackendSealedWorkspaces: no part of a repository is free of seals by being
// called the workspace.
func TestBackendSealedWorkspaces(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		s.repository()
		s.dir(".github/workflows")
		s.dir(".vscode/x")
		for _, p := range []string{".git", ".git/hooks", ".git/objects", ".github/workflows", ".vscode/x"} {
			in := *s
			in.workspace = filepath.Join(s.workspace, p)
			_, err := b.Start(t.Context(), in.job("/bin/sh", "-c", "echo EVIL > pre-commit"))
			if e := palyra.AsError(err); e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Remedy, s.workspace) ||
				exists(in.workspace+"/pre-commit") {
				t.Errorf("%s: %v", p, err)
			}
		}
		in := *s
		in.workspace = s.workspace + "/.github"
		if x := runJob(t, b, in.job("/bin/sh", "-c", "touch workflows/evil.yml; mkdir -p actions/x; touch plain")); !slices.Equal(x.Quarantined,
			[]string{"actions"}) {
			t.Errorf("%q", x.Quarantined)
		}
		if exists(in.workspace+"/workflows/evil.yml") || exists(in.workspace+"/actions") || !exists(in.workspace+"/plain") {
			t.Error("what begins above the workspace is not sealed in it")
		}
	})
}

// TestBackendOverlap: runs at once in directories of which one contains the other,
// or with other seals, make nothing last for each other.
func TestBackendOverlap(t *testing.T) {
	more := append([]string{"another"}, seal.Default...)
	for _, test := range []struct {
		name, first, second string
		seals               []string // of the second
	}{{"inside first", "sub", "", nil}, {"outside first", "", "sub", nil}, {"other seals", "sub", "sub", more}, {"both", "", "sub", more}} {
		for _, text := range []string{"evil", "worse"} {
			t.Run(test.name+" "+text, func(t *testing.T) {
				b := openBackend(t, configOf(t))
				top := newSite(t, celltest.Residents()[0])
				top.dir("sub")
				evil := top.workspace + "/sub/.envrc"
				one, two := *top, *top
				one.workspace, two.workspace = filepath.Join(top.workspace, test.first), filepath.Join(top.workspace, test.second)
				first := one.starts(b, "echo evil > "+evil+"; echo ready; exec sleep 1000")
				j := two.job("/bin/sh", "-c", "echo ready; while [ -e "+evil+" ]; do sleep 0.01; done; echo "+text+" > "+evil+
					" && echo again; exec sleep 1000")
				if test.seals != nil {
					j.Seals = test.seals
				}
				second, err := b.Start(t.Context(), j)
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "ready", func() bool { return strings.Contains(two.printed(), "ready") })
				first.Stop("cancelled", 0)
				x := waitFor(t, first) // what is made again while it is swept may be taken by either
				if len(x.Quarantined) == 0 {
					t.Errorf("the first: %q", x.Quarantined)
				}
				eventually(t, "made again", func() bool { return strings.Contains(two.printed(), "again") })
				second.Stop("cancelled", 0)
				if y := waitFor(t, second); len(x.Quarantined)+len(y.Quarantined) != 2 || exists(evil) {
					t.Errorf("the first: %q, the second: %q, %v", x.Quarantined, y.Quarantined, exists(evil))
				}
			})
		}
	}
}

// TestBackendLookedTooEarly: a room whose workspace was looked at while another run
// was under way is not used once that one was swept.
func TestBackendLookedTooEarly(t *testing.T) {
	for _, second := range []string{"", "sub"} {
		b := openBackend(t, configOf(t))
		top := newSite(t, celltest.Residents()[0])
		top.dir("sub")
		in, out := *top, *top
		in.workspace, out.workspace = top.workspace+"/sub", filepath.Join(top.workspace, second)
		first := in.starts(b, "echo evil > .envrc; echo ready; exec sleep 1000")
		k, err := b.build(t.Context(), b.want(out.trueJob()))
		if err != nil {
			t.Fatal(err)
		}
		first.Stop("cancelled", 0)
		waitFor(t, first)
		if err := k.begin(t.Context(), "call"); !errors.Is(err, template.ErrChanged) {
			t.Errorf("%q: %v", second, err)
		}
		k.discard()
		runJob(t, b, out.trueJob())
	}
}

// TestBackendGivesUpWaitingForChanges: a run that waits until changes are put into its workspace ends with its call.
func TestBackendGivesUpWaitingForChanges(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	_, done := b.admit("other", s.workspace, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := b.Start(ctx, s.trueJob()); err == nil || !errors.Is(palyra.AsError(err).Cause, context.Canceled) {
		t.Errorf("%v", err)
	}
	done()
	runJob(t, b, s.trueJob())
}

// TestBackendMovedWorkspace: a run whose workspace another one moves away is swept
// where that is.
func TestBackendMovedWorkspace(t *testing.T) {
	b := openBackend(t, configOf(t))
	top := newSite(t, celltest.Residents()[0])
	top.dir("sub")
	in, out := *top, *top
	in.workspace = top.workspace + "/sub"
	first := in.starts(b, "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo evil > .envrc; echo made; exec sleep 1000")
	if code, text := out.script(b, "mv sub moved; mkdir sub"); code != 0 {
		t.Fatal(text)
	}
	top.file("moved/go", "")
	eventually(t, "made", func() bool { return strings.Contains(in.printed(), "made") })
	first.Stop("cancelled", 0)
	if x := waitFor(t, first); len(x.Quarantined) != 1 || exists(top.workspace+"/moved/.envrc") {
		t.Errorf("%q", x.Quarantined)
	}
}

// TestBackendShutWorkspace: a run that shuts its workspace leaves nothing in it,
// also where the quarantine is on another file system.
func TestBackendShutWorkspace(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		far, err := os.MkdirTemp("/dev/shm", "palyra-bubble-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(far) })
		c.Quarantine = filepath.Join(far, "quarantine")
		b := openBackend(t, c)
		s := newSite(t, who)
		x := runJob(t, b, s.job("/bin/sh", "-c", "echo evil > .envrc; chmod 555 ."))
		if !slices.Equal(x.Quarantined, []string{".envrc"}) || exists(s.workspace+"/.envrc") ||
			!exists(s.workspace+"/.palyra/quarantine/call/000001") {
			t.Errorf("%q", x.Quarantined)
		}
		if err := os.Chmod(s.workspace, 0o755); err != nil {
			t.Fatal(err)
		}
	})
}
