package seal

import (
	"os"
	"strings"
	"testing"
)

func TestStale(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*box)
		want   bool
	}{
		{"nothing", func(*box) {}, false},
		{"a plain file", func(b *box) { b.file("a/b/new", "c/d/e") }, false},
		{"content of a sealed file", func(b *box) { must(b.t, os.WriteFile(b.in(".envrc"), []byte("x"), 0o600)) }, false},
		{"a new sealed path", func(b *box) { b.file("a/b/.git") }, true},
		{"a new sealed path far down", func(b *box) { b.file("x/y/z/.envrc") }, true},
		{"a sealed path less", func(b *box) { must(b.t, os.Remove(b.in(".envrc"))) }, true},
		{"a sealed file replaced", func(b *box) { b.file("t"); must(b.t, os.Rename(b.in("t"), b.in(".envrc"))) }, true},
		{"a directory above replaced", func(b *box) {
			must(b.t, os.Rename(b.in("a"), b.in("old")))
			b.file("a/")
			must(b.t, os.Rename(b.in("old/b"), b.in("a/b")))
		}, true},
		{"a second name of a sealed file", func(b *box) { must(b.t, os.Link(b.in(".envrc"), b.in("z"))) }, true},
		{"a second name below a seal", func(b *box) { must(b.t, os.Link(b.in(".git/hooks/x"), b.in("z"))) }, true},
		{"the workspace replaced", func(b *box) {
			must(b.t, os.Rename(b.ws, b.ws+"-old"))
			must(b.t, os.Mkdir(b.ws, 0o700))
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBox(t)
			b.file(".envrc", ".git/hooks/x", ".git/config", "a/b/.vscode/x", "a/b/plain")
			s := b.scan()
			test.change(b)
			for range 2 { // the second time with what the first one learned
				got, err := s.Stale(t.Context())
				must(t, err)
				if got != test.want {
					t.Errorf("stale %v, want %v", got, test.want)
				}
			}
		})
	}
}

// A directory that did not change is not read again, and yet a change in it that
// came right after the first look is found.
func TestStaleReadsOnlyWhatChanged(t *testing.T) {
	b := newBox(t)
	b.file("a/b/c/d", "e/f")
	for _, settle := range []int64{-1, 2} {
		s, err := Scan(t.Context(), b.ws, Default, Limits{settle: settle})
		must(t, err)
		tr, err := openTree(b.ws)
		must(t, err)
		w := newWalker(t.Context(), tr, s.match, s, s.workspace, s.limits)
		must(t, w.walk())
		tr.close()
		if read, want := w.seen > 0, settle > 0; read != want {
			t.Errorf("settle %d: %d entries read", settle, w.seen)
		}
	}
}

func TestRecord(t *testing.T) {
	b := newBox(t)
	b.file(repoIn(".git")...)
	b.file("a/.envrc", "\xff/.envrc")
	doc, err := b.scan().Record()
	must(t, err)
	b.file("new/.git/config", ".git/config.worktree", "b/.envrc")
	b.file(repoIn("bare")...)
	must(t, os.WriteFile(b.in("a/.envrc"), []byte("changed"), 0o600))
	s, err := Load(doc)
	must(t, err)
	made := b.sweep(s)
	want := []string{".git/config.worktree", "/changed: a/.envrc", "b/.envrc", "bare/HEAD", "bare/config", "bare/hooks", "new/.git"}
	if strings.Join(made, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", made, want)
	}
	if again, err := s.Record(); err != nil || len(again) == 0 {
		t.Errorf("record after a sweep: %v", err)
	}
}

// A repository that is the workspace itself stays.
func TestWorkspaceIsARepository(t *testing.T) {
	b := newBox(t)
	b.file("HEAD", "objects/", "refs/", "config", "hooks/x")
	for _, again := range []bool{false, true} {
		s := b.scan()
		if again {
			doc, err := s.Record()
			must(t, err)
			s, err = Load(doc)
			must(t, err)
		}
		b.file("refs/heads/x")
		if made := b.sweep(s); made != nil {
			t.Errorf("%q", made)
		}
		if got := strings.Join(seals(s), " "); got != "ro config ro hooks" {
			t.Errorf("mounts %q", got)
		}
	}
}
