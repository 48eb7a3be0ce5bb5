package seal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// two are runs under way at once in overlapping workspaces: the first made a
// sealed path, and the second found it there.
func two(t *testing.T, first, second, evil string, names []string) (a, c *box, sa, sc *Snapshot) {
	t.Helper()
	b := newBox(t)
	b.file("sub/deep/x", "sub/.github/workflows/ci.yml", "sub/node_modules/m/.vscode/x", ".envrc")
	a, c = &box{t: t, ws: b.in(first), quarantine: b.quarantine}, &box{t: t, ws: b.in(second), quarantine: b.quarantine}
	sa = a.scan()
	must(t, os.MkdirAll(filepath.Dir(b.in(evil)), 0o700))
	must(t, os.WriteFile(b.in(evil), []byte("evil"), 0o600))
	sc, err := Scan(t.Context(), c.ws, names, Limits{settle: -1})
	must(t, err)
	must(t, sc.Share(sa))
	return a, c, sa, sc
}

func TestShare(t *testing.T) {
	for _, test := range []struct{ first, second, evil string }{
		{"sub", ".", "sub/.envrc"},
		{".", "sub", "sub/.envrc"},
		{"sub", ".", "sub/x/.vscode/tasks.json"},
		{".", "sub/deep", "sub/deep/.vscode/tasks.json"},
		{"sub/deep", ".", "sub/deep/.git/config"},
		{".", "sub", "sub/.github/workflows/new/evil.yml"},
		{".", ".", ".vscode/tasks.json"},
	} {
		for _, again := range []string{"evil", "other"} {
			a, c, sa, sc := two(t, test.first, test.second, test.evil, Default)
			path := filepath.Join(filepath.Clean(strings.TrimSuffix(a.ws, test.first)), test.evil)
			a.sweep(sa)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700)) // as the second can by now
			must(t, os.WriteFile(path, []byte(again), 0o600))
			c.sweep(sc)
			sealed, err := Scan(t.Context(), c.ws, Default, Limits{settle: -1})
			must(t, err)
			if got := strings.Join(sealed.Sealed(), " "); strings.Contains(got, filepath.Base(filepath.Dir(test.evil))) &&
				strings.Contains(got, ".vscode") {
				t.Errorf("%+v: sealed %q", test, got)
			}
			if _, err := os.Lstat(path); err == nil && !strings.Contains(test.evil, "workflows") { // below a sealed directory: no run's
				t.Errorf("%+v: %s remains", test, test.evil)
			}
		}
	}
}

// What the first run does not seal, or what was there before it, is the second's
// to know.
func TestShareLeavesTheRest(t *testing.T) {
	for _, test := range []struct {
		first, second, made string
		names               []string
	}{
		{".", "sub/node_modules/m", "sub/node_modules/m/.idea/x", Default}, // packages bring such files along
		{"sub", ".", "sub/deep/config", append([]string{"deep/config"}, Default...)},
	} {
		_, c, _, sc := two(t, test.first, test.second, test.made, test.names)
		if made := c.sweep(sc); len(made) != 0 {
			t.Errorf("%+v: made %q", test, made)
		}
	}
}

// The record is by what is known, so that a crash changes nothing.
func TestShareIsRecorded(t *testing.T) {
	_, c, _, sc := two(t, "sub", ".", "sub/.envrc", Default)
	text, err := sc.Record()
	must(t, err)
	s, err := Load(text)
	must(t, err)
	if made := strings.Join(c.sweep(s), " "); made != "sub/.envrc" {
		t.Errorf("made %q", made)
	}
	if !c.exists(".envrc") || !c.exists("sub/.github/workflows/ci.yml") {
		t.Error("what was there is gone")
	}
}

// What a sealed path was before the first run is what the second puts back.
func TestShareKnowsWhatWas(t *testing.T) {
	b := newBox(t)
	b.file("sub/.envrc")
	in := &box{t: t, ws: b.in("sub"), quarantine: b.quarantine}
	sa := in.scan()
	must(t, os.Remove(b.in("sub/.envrc"))) // from outside: the mount that held it is gone
	must(t, os.WriteFile(b.in("sub/.envrc"), []byte("evil"), 0o600))
	sc := b.scan()
	must(t, sc.Share(sa))
	must(t, os.WriteFile(b.in("sub/.envrc"), []byte("worse"), 0o600))
	b.sweep(sc)
	if got, err := os.ReadFile(b.in("sub/.envrc")); string(got) != "sub/.envrc" || err != nil {
		t.Errorf("it is %q, %v", got, err)
	}
}

func TestForget(t *testing.T) {
	b := newBox(t)
	b.file(".envrc", "sub/.vscode/x", ".idea/y")
	s := b.scan()
	copied := *s
	s.Forget([]string{b.in("sub/.vscode"), b.in(".envrc"), b.out, b.ws})
	if s.Knows(".envrc") || s.Knows("sub/.vscode/x") || !s.Knows(".idea") || !copied.Knows(".envrc") || s.Same(&copied) {
		t.Error("it knows too much or too little")
	}
	if stale, err := s.Stale(t.Context()); stale || err != nil || s.Knows(".envrc") {
		t.Errorf("stale %v, %v", stale, err)
	}
	if made := strings.Join(b.sweep(s), " "); made != ".envrc sub/.vscode" {
		t.Errorf("made %q", made)
	}
	if made := b.sweep(s); len(made) != 0 {
		t.Errorf("then %q", made)
	}
}

// A workspace that another run moves is swept where it is.
func TestHold(t *testing.T) {
	b := newBox(t)
	b.file("x")
	s := b.scan()
	must(t, s.Hold())
	defer s.Release()
	was := b.ws
	must(t, os.Rename(b.ws, b.ws+"-moved"))
	must(t, os.Mkdir(b.ws, 0o700))
	b.ws += "-moved"
	b.file(".envrc")
	if made := strings.Join(b.sweep(s), " "); made != ".envrc" || b.exists(".envrc") {
		t.Errorf("made %q", made)
	}
	must(t, os.RemoveAll(b.ws))
	if _, err := s.Sweep(t.Context(), b.quarantine, testCall); err != nil {
		t.Errorf("a workspace that was deleted: %v", err)
	}
	b.ws = was
}
