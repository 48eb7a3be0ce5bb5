package stage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// states is what is at every path of a directory.
func states(t *testing.T, top string) map[string]State {
	t.Helper()
	out := map[string]State{}
	check(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		s := State{Mode: st.Mode & 0o777}
		if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFLNK && s.Mode&0o400 == 0 && os.Geteuid() != 0 {
			check(t, os.Chmod(path, os.FileMode(s.Mode|0o700))) // to be looked at
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			s.Kind, s.Mode = Directory, st.Mode&0o3777
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			s = State{Kind: Link, Target: target}
		case unix.S_IFIFO:
			s.Kind = Pipe
		case unix.S_IFSOCK:
			s.Kind = Socket
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s.Kind, s.Size, s.Digest = File, int64(len(b)), fmt.Sprintf("sha256:%x", sha256.Sum256(b))
		}
		out[strings.TrimPrefix(strings.TrimPrefix(path, top), "/")] = s
		return nil
	}))
	return out
}

// between lists what is different in two trees.
func between(was, now map[string]State) []Change {
	var out []Change
	for p, s := range was {
		if now[p] != s {
			out = append(out, Change{Path: p, Was: s, Now: now[p]})
		}
	}
	for p, s := range now {
		if _, too := was[p]; !too {
			out = append(out, Change{Path: p, Now: s})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func sameChanges(t *testing.T, want, got []Change) {
	t.Helper()
	if !slices.Equal(want, got) {
		t.Errorf("changes\n%+v\nwant\n%+v", got, want)
	}
}

// The list of a run's changes is exact: each path that is another one, with what was
// there and what is, and no other.
func TestChangesAreExact(t *testing.T) {
	for name, run := range map[string]string{
		"nothing":            "cat f > /dev/null; ls d",
		"the same again":     "cat f > g; rm f; mv g f",
		"new":                "mkdir -p n/m; echo x > n/m/o; ln -s ../f n/l; mkfifo n/p; chmod 2750 n/m; printf y > \"$(printf 'raw\\377')\"",
		"changed":            "echo more >> f; chmod 600 d/1/2; ln -sfn other l; chmod 700 k",
		"removed":            "rm -rf d; rm f l",
		"made anew":          "rm -rf d; mkdir -p d/1; printf old > d/1/2; echo x > d/1/3",
		"a file of a dir":    "rm -rf d; echo x > d",
		"a dir of a file":    "rm f; mkdir f; echo x > f/y",
		"a link of a dir":    "rm -rf d; ln -s / d",
		"moved":              "mv f g; mv d/1/2 two",
		"nobody may read it": "echo x > f; chmod 0 f; echo n > n; chmod 0 n; mkdir s; echo x > s/y; chmod 0 s",
		"only the time":      "touch f d",
		"hard links":         "ln f h; echo x >> f",
		"a socket":           "rm sock",
		"a file of a socket": "rm sock; echo x > sock",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("d/1/2", "old")
			b.write("d/3", "three")
			b.write("f", "old\n")
			b.write("k/x", "old")
			check(t, os.Symlink("f", filepath.Join(b.ws, "l")))
			check(t, unix.Mknod(filepath.Join(b.ws, "sock"), unix.S_IFSOCK|0o755, 0))
			before := states(t, b.ws)
			g := b.stage()
			b.run(g, run)
			e := b.keep(g)
			if len(e.Conflicts) > 0 || e.Lost != "" || len(e.Refused) > 0 {
				t.Fatalf("%+v", e)
			}
			sameChanges(t, between(before, states(t, b.ws)), e.Changes)
			_ = os.Chmod(filepath.Join(b.ws, "s"), 0o700)
		})
	}
}

// Where nothing is kept because somebody else was there, what the run did is known all
// the same as far as it is not in question.
func TestChangesOfAConflict(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	g := b.stage()
	b.run(g, "echo run >> f; echo x > n")
	b.write("f", "other\n")
	e := b.keep(g)
	if len(e.Conflicts) != 1 || len(e.Changes) != 1 || e.Changes[0].Path != "n" {
		t.Errorf("%+v", e)
	}
}

// Files that take no room are not read for hours: what is beyond the bound is listed without
// its digest, and counts as another one.
func TestChangesAreReadToABound(t *testing.T) {
	b := newBench(t)
	b.write("same", "old")
	check(t, os.Truncate(filepath.Join(b.ws, "same"), 3*mostRead))
	g := b.stage()
	b.run(g, "chmod 600 same; chmod 644 same; for i in 1 2 3 4 5 6 7 8; do truncate -s 1025M big$i; done; echo x > small")
	e := b.keep(g)
	if e.Lost != "" || len(e.Conflicts) > 0 || len(e.Changes) != 10 {
		t.Fatalf("%+v", e)
	}
	for _, c := range e.Changes {
		if read := c.Now.Digest != ""; read != (c.Path == "small") || c.Now.Kind != File {
			t.Errorf("%+v", c)
		}
	}
	if c := e.Changes[8]; c.Path != "same" || c.Was.Size != 3*mostRead || c.Was.Digest != "" {
		t.Errorf("%+v", c)
	}
}

// Large files that say nothing keep no other file from being read; what was not read can be undone for as long as it
// is the file that the run left.
func TestSmallFilesAreReadFirst(t *testing.T) {
	b := newBench(t)
	p := b.past()
	b.write("f", "old\n")
	for _, name := range []string{"!0", "!1", "!2"} {
		b.write(name, "")
		check(t, os.Truncate(filepath.Join(b.ws, name), mostRead))
	}
	g := b.stage()
	b.run(g, "chmod 600 '!0' '!1' '!2'; echo run > f; echo run > n; truncate -s 1025M big")
	e := b.remembered(g, p, "run")
	for _, c := range e.Changes {
		if read := c.Now.Digest != ""; read != (c.Path == "f" || c.Path == "n") {
			t.Errorf("%+v", c)
		}
	}
	big := filepath.Join(b.ws, "big")
	fi, err := os.Stat(big)
	check(t, err)
	f, err := os.OpenFile(big, os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt([]byte("later"), 100)
	check(t, errors.Join(err, f.Close(), os.Chtimes(big, fi.ModTime(), fi.ModTime())))
	differs := (*DiffersError)(nil)
	if _, err := b.all.Revert(t.Context(), p, "run"); !errors.As(err, &differs) || !slices.Equal(differs.Paths, []string{"big"}) {
		t.Errorf("%v", err)
	}
	g = b.stage()
	b.run(g, "rm big; truncate -s 1025M big")
	b.keep(g)
	g = b.stage()
	b.run(g, "echo again > f; truncate -s 1026M more")
	b.remembered(g, p, "again")
	undo, err := b.all.Revert(t.Context(), p, "again")
	check(t, err)
	b.keep(undo)
	if _, err := os.Stat(filepath.Join(b.ws, "more")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// What a removal takes is held to the bounds of names like what a run makes.
func TestRemovalsAreBounded(t *testing.T) {
	b := newBench(t)
	for i := range 30 {
		b.write(fmt.Sprintf("d/%d", i), "")
	}
	b.all.limits.Entries = 20
	g := b.stage()
	b.run(g, "rm -r d")
	over := (*LimitError)(nil)
	if _, err := g.Keep(t.Context(), nil, nil); !errors.As(err, &over) {
		t.Errorf("%v", err)
	}
	b.all.limits.Entries = 1000
	var at unix.Stat_t
	check(t, unix.Lstat(filepath.Join(b.ws, "d"), &at))
	ws, err := g.openWorkspace()
	check(t, err)
	defer func() { _ = unix.Close(ws) }()
	r := &reader{Stage: g, ctx: t.Context(), ws: ws, since: g.changesSince(), text: mostNames - 50}
	if _, err := r.untouched("d", &at); !errors.As(err, &over) {
		t.Errorf("paths: %v", err)
	}
}
