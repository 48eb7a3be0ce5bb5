package stage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/preimage"
)

// besides makes a stage with a second one over a repository that has a HEAD.
func (b *bench) besides() (g *Stage, repository string) {
	b.t.Helper()
	repository = filepath.Join(filepath.Dir(b.ws), "repository")
	check(b.t, os.MkdirAll(repository, 0o755))
	check(b.t, os.WriteFile(filepath.Join(repository, "HEAD"), []byte("old\n"), 0o644))
	g = b.stage()
	check(b.t, g.Beside(repository, func(string) bool { return true }, func(string) bool { return false }))
	return g, repository
}

// What is held of a repository outside can be read as the rest can; once it is kept, undo knows of the workspace's
// changes alone.
func TestHeldBeside(t *testing.T) {
	b := newBench(t)
	p := b.past()
	b.all.Remember(p)
	b.write("f", "old\n")
	g, repository := b.besides()
	check(t, g.Assign("call-1"))
	check(t, g.Begin())
	b.run(g, "echo run > f")
	check(t, os.WriteFile(filepath.Join(g.BesidePath(), Upper, "HEAD"), []byte("run\n"), 0o644))
	e, err := g.Keep(t.Context(), nil, func(Found) Ruling { return RulingHold })
	if check(t, err); !e.Held {
		t.Fatalf("%+v", e)
	}
	g.Drop()
	for _, stop := range []bool{false, true} {
		var got []string
		check(t, b.all.HeldContents(t.Context(), "call-1", func(c Change) bool { return strings.Trim(c.Path, "/") != "" }, 100,
			func(c preimage.Content) bool {
				got = append(got, c.Path+" "+string(c.Before)+string(c.After)+c.Why)
				return !stop
			}))
		if want := []string{"f old\nrun\n", ".git/HEAD old\nrun\n"}; !slices.Equal(got, want) && (!stop || !slices.Equal(got, want[:1])) {
			t.Errorf("%q", got)
		}
	}
	e, err = b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil)
	if check(t, err); e.Kept != 2 {
		t.Errorf("%+v", e)
	}
	if text, err := os.ReadFile(filepath.Join(repository, "HEAD")); err != nil || string(text) != "run\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := p.Read("call-1"); err != nil {
		t.Error(err)
	}
	if _, err := p.Read("call-1" + besideSuffix); err == nil {
		t.Error("a call that was none can be undone")
	}
}

// Both stages of a run have its limits together.
func TestOverBeside(t *testing.T) {
	b := newBench(t)
	b.all.limits.Bytes = 1 << 20
	g, _ := b.besides()
	for i, dir := range []string{g.Path(), g.BesidePath()} {
		check(t, os.WriteFile(filepath.Join(dir, Upper, "x"), make([]byte, 600<<10), 0o644))
		var over *LimitError
		if err := g.Over(); errors.As(err, &over) != (i == 1) || i == 1 && over.Of != "bytes" {
			t.Errorf("%d: %v", i, err)
		}
	}
}
