//go:build unix

package gitrepo

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a repository's store has is what it is called by, or that is told: a loose object, one in a pack, and what git
// believes without looking.
func TestVerify(t *testing.T) {
	const packed = "git -c gc.writeCommitGraph=false gc -q; "
	for _, c := range []struct {
		name, run string
		holds     bool
	}{
		{"as git makes it", "echo 2 > f; git add f; git commit -q -m 2", true},
		{"in packs, with deltas", `for i in 1 2 3; do seq $((i*1000)) > big; git add big; git commit -q -m $i; done; ` + packed, true},
		{"a loose one with another's name", `
			a=.git/objects/$(git rev-parse HEAD:f | sed 's,^..,&/,'); b=.git/objects/$(echo evil | git hash-object -w --stdin | sed 's,^..,&/,')
			chmod u+w $a; cat $b > $a`, false},
		{"one that is no object", `a=.git/objects/$(git rev-parse HEAD:f | sed 's,^..,&/,'); chmod u+w $a; echo x > $a`, false},
		{"a graph of commits", "git commit-graph write --reachable", false},
		{"an index over packs", packed + "git multi-pack-index write", false},
		{"a store elsewhere", "mkdir -p .git/objects/info; echo /x > .git/objects/info/alternates", false},
		{"what is no object", "echo x > .git/objects/note; rm -rf .git/objects/info/commit-graph*", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			p.shell("echo 1 > f; git add f; git commit -q -m 1")
			p.shell(c.run)
			err := p.open(".git").Verify(stored(t, filepath.Join(p.dir, ".git")))
			if (err == nil) != c.holds {
				t.Errorf("%v", err)
			}
		})
	}
}

// An index of a pack that gives an object another's name is found.
func TestVerifyForgedPack(t *testing.T) {
	p := newProject(t)
	p.file("f", "1")
	p.file("g", "2")
	p.git("add", ".")
	p.git("commit", "-q", "-m", "1")
	p.git("-c", "gc.writeCommitGraph=false", "gc", "-q")
	files, err := filepath.Glob(filepath.Join(p.dir, ".git/objects/pack/*.idx"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := 8 + 256*4 // of the first name; its last byte is another one
	b[at+19]++
	if err := os.Chmod(files[0], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.open(".git").Verify(stored(t, filepath.Join(p.dir, ".git"))); err == nil {
		t.Error("it is taken")
	}
}

// shell runs a script, as git does the command of an alias.
func (p *project) shell(script string) {
	p.t.Helper()
	p.file("../script", "set -e\n"+script)
	p.git("-c", "alias.x=!sh "+filepath.Join(filepath.Dir(p.dir), "script"), "x")
}

// stored are the files of a store.
func stored(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
