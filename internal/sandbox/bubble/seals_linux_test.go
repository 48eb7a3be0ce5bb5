package bubble

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/celltest"
)

// repository makes something like one.
func (s *site) repository() {
	s.dir(".git/hooks")
	s.dir(".git/objects")
	s.dir(".git/refs")
	s.file(".git/HEAD", "ref: refs/heads/main\n")
	s.file(".git/config", "[core]\n")
	s.file(".git/hooks/pre-commit.sample", "#!/bin/sh\n")
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// TestBackendSeals: sealed paths cannot be changed, moved or replaced from inside,
// and the rest of the repository can.
func TestBackendSeals(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		c.Warm = 1
		b := openBackend(t, c)
		s := newSite(t, who)
		s.repository()
		for n := range 2 { // cold, and warm
			j := s.job("/bin/sh", "-c", `
				t() { "$@" 2>/dev/null && echo "done: $*"; }
				t touch .git/hooks/pre-commit; t rm -rf .git/hooks; t mv .git/hooks .git/h; t mv .git g; t rm .git/config; t mv .git/config x
				t ln -sf /tmp .git/hooks; t mkdir -p .git/hooks/x; t chmod 777 .git/config; (echo x >> .git/config) 2>/dev/null && echo "config written"
				echo work > .git/index && cat .git/index; echo other > src && rm src`)
			x := runJob(t, b, j)
			if got := s.printed(); got != "work" || x.Quarantined != nil {
				t.Errorf("%d: %s %+v", n, got, x)
			}
			if got, err := os.ReadFile(s.workspace + "/.git/config"); string(got) != "[core]\n" || err != nil ||
				exists(s.workspace+"/.git/hooks/pre-commit") {
				t.Errorf("%d: config is %q, %v", n, got, err)
			}
			eventually(t, "a warm cell", func() bool { return b.pool.idle() == 1 })
		}
	})
}

// TestBackendQuarantine: sealed paths that a run makes are gone before Wait returns,
// kept in quarantine, and told; also when the run was killed.
func TestBackendQuarantine(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		b := openBackend(t, c)
		s := newSite(t, who)
		const make = "mkdir -p sub/.git/hooks .vscode && echo x > sub/.git/hooks/pre-commit && echo x > .envrc && echo x > " +
			".vscode/tasks.json && echo x > plain"
		check := func(x sandbox.Exit) {
			t.Helper()
			got := slices.Sorted(slices.Values(x.Quarantined))
			if !slices.Equal(got, []string{".envrc", ".vscode", "sub/.git"}) {
				t.Errorf("quarantined %q", got)
			}
			for _, p := range []string{".envrc", ".vscode", "sub/.git"} {
				if exists(filepath.Join(s.workspace, p)) {
					t.Errorf("%s remains", p)
				}
			}
			if !exists(s.workspace + "/plain") {
				t.Error("what is not sealed is gone")
			}
		}
		check(runJob(t, b, s.job("/bin/sh", "-c", make)))
		if !exists(filepath.Join(c.Quarantine, "call")) && !exists(s.workspace+"/.palyra/quarantine/call") {
			t.Error("there is nothing in quarantine")
		}
		p := s.starts(b, make+"; echo ready; sleep 1000")
		p.Stop("cancelled", 0)
		check(waitFor(t, p))
	})
}

// TestBackendTogether: of runs under way at once in a workspace, none can make a
// sealed path last by letting another find it there.
func TestBackendTogether(t *testing.T) {
	b := openBackend(t, configOf(t))
	s, other := newSite(t, celltest.Residents()[0]), newSite(t, celltest.Residents()[0])
	other.workspace = s.workspace
	first := s.starts(b, "echo x > .envrc; echo ready; while [ -e .envrc ]; do sleep 0.01; done; sleep 1000")
	second := other.starts(b,
		"echo ready; while [ -e .envrc ]; do sleep 0.01; done; echo gone; while [ ! -e again ]; do sleep 0.01; done; echo y > .envrc; sleep 1000")
	first.Stop("cancelled", 0)
	if x := waitFor(t, first); !slices.Equal(x.Quarantined, []string{".envrc"}) {
		t.Errorf("the first: %q", x.Quarantined)
	}
	eventually(t, "gone", func() bool { return strings.Contains(other.printed(), "gone") })
	s.file("again", "")
	eventually(t, "made again", func() bool { return exists(s.workspace + "/.envrc") })
	second.Stop("cancelled", 0)
	if x := waitFor(t, second); !slices.Equal(x.Quarantined, []string{".envrc"}) || exists(s.workspace+"/.envrc") {
		t.Errorf("the second: %q", x.Quarantined)
	}
	for key, o := range b.bases {
		if o.runs != 0 || o.owed != "" || o.snapshot != nil {
			t.Errorf("the base %s is kept", key)
		}
	}
}

// TestBackendNothingSealed: a plan without seals has none, and no record.
func TestBackendNothingSealed(t *testing.T) {
	c := configOf(t)
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	j := s.job("/bin/sh", "-c", "mkdir -p .git/hooks; echo ready; sleep 1000")
	j.Seals = nil
	p, err := b.Start(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready", func() bool { return strings.Contains(s.printed(), "ready") })
	if left := records(c); len(left) != 0 {
		t.Errorf("%v", left)
	}
	p.Stop("cancelled", 0)
	if x := waitFor(t, p); x.Quarantined != nil || !exists(s.workspace+"/.git/hooks") {
		t.Errorf("%+v", x)
	}
}

// TestBackendUnsealable: a workspace that cannot be sealed is refused, with what is
// in the way, and nothing runs.
func TestBackendUnsealable(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	s.repository()
	if err := os.Link(s.workspace+"/.git/config", s.workspace+"/second-name"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Start(t.Context(), s.job("/bin/sh", "-c", "touch ran"))
	if e := palyra.AsError(err); e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Text, ".git/config") ||
		exists(s.workspace+"/ran") {
		t.Errorf("%v", err)
	}
}
