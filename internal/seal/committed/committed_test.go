package committed

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/seal"
)

// project is a workspace with a repository that git made.
type project struct {
	t   testing.TB
	dir string
	was *State
}

func newProject(t testing.TB) *project {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, dir: dir}
	p.sh(`git init -q -b main; mkdir -p .github/workflows src; echo ci > .github/workflows/ci.yml; echo 1 > src/a; git add .; git commit -q -m 0`)
	return p
}

// sh runs a script with nobody's configuration of git.
func (p *project) sh(script string) {
	p.t.Helper()
	c := exec.Command("/bin/sh", "-e", "-c", script)
	c.Dir = p.dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	if out, err := c.CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// run is what comes in by a script.
func (p *project) run(script string) Found {
	p.t.Helper()
	w, err := Begin(p.t.Context(), p.dir, seal.Default, []string{".git"}, p.was)
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Close()
	p.sh(script)
	found, now := w.End(p.t.Context())
	p.was = now
	return found
}

// stage puts a file into the index that is not in the work tree.
const stage = `blob=$(echo evil | git hash-object -w --stdin); add() { git update-index --add --cacheinfo 100644,$blob,$1; }; `

func TestFound(t *testing.T) {
	tests := []struct{ name, before, run, want string }{
		{"ordinary work", "", "echo 2 > src/a; git add .; git commit -q -m x; git branch y; git tag -a -m z z; git checkout -q -b w", ""},
		{"nothing", "", "true", ""},
		{
			"index", "", stage + "add .github/workflows/ci2.yml; add src/.vscode/tasks.json; add plain",
			".github/workflows/ci2.yml src/.vscode/tasks.json",
		},
		{"commit", "", stage + "add .github/workflows/ci2.yml; git commit -q -m tidy", ".github/workflows/ci2.yml"},
		{"amended", "", stage + "add .envrc; git commit -q --amend -m 0", ".envrc"},
		{"changed", "", stage + "add .github/workflows/ci.yml", ".github/workflows/ci.yml"},
		{"removed", "", "git rm -q --cached .github/workflows/ci.yml; git commit -q -m x", ".github/workflows/ci.yml"},
		{"removed from the index", "", "git rm -q --cached .github/workflows/ci.yml", ".github/workflows/ci.yml"},
		{"added and taken out again", "", stage + "add .envrc; git commit -q -m x; git rm -q --cached .envrc; git commit -q -m y", ".envrc"},
		{"another branch", "", stage + "git checkout -q -b side; add .envrc; git commit -q -m x; git checkout -q main", ".envrc"},
		{"a tag", "", stage + "add .envrc; git commit -q -m x; git tag -a -m t t; git reset -q --hard HEAD~1; git reflog expire --all " +
			"--expire=now", ".envrc"},
		{"stash", "", stage + "echo 2 > src/a; add .envrc; git stash -q", ".envrc"},
		{"no HEAD moved", "", stage +
			`t=$(printf "100644 blob $blob\t.envrc\n" | git mktree); git update-ref refs/notes/x $(git commit-tree -m x $t)`, ".envrc"},
		{"in a pack", "", stage + "add a/.npmrc; git commit -q -m x; git gc -q; git reset -q HEAD", "a/.npmrc"},
		{"case folded", "", stage + "add .ENVRC", ".ENVRC"},
		{
			"a link on the way", "", "blob=$(printf c | git hash-object -w --stdin); git update-index --add --cacheinfo 120000,$blob,.cargo",
			".cargo",
		},
		{
			"a directory of links", "", "blob=$(printf c | git hash-object -w --stdin); git update-index --add --cacheinfo 120000,$blob,src/plain",
			"",
		},
		{"replaced", "", stage + "git replace HEAD:.github/workflows/ci.yml $blob", ".git/refs/replace/X"},
		{"staged by somebody before", stage + "add .envrc", "git commit -q -m x", ""},
		{"removed by somebody before", "git rm -q --cached .github/workflows/ci.yml", "git commit -q -m x", ""},
		{
			"a branch that was there", stage + "git checkout -q -b side; add .envrc; git commit -q -m x; git checkout -q main",
			"git checkout -q side; git checkout -q -b third; git tag x", "",
		},
		{
			"merged from a branch that was there", stage + "git checkout -q -b side; add .envrc; git commit -q -m x; git checkout -q main",
			"echo 3 > b; git add b; git commit -q -m b; git merge -q -m m side", "",
		},
		{
			"merged and changed", stage + "git checkout -q -b side; echo 1 > c; git add c; git commit -q -m x; git checkout -q main",
			stage + "git merge -q --no-ff --no-commit side; add .envrc; git commit -q -m m", ".envrc",
		},
		{
			"back to what was there", stage + "add .envrc; git commit -q -m 1; echo x > b; git add b; git commit -q -m 2",
			"git reset -q --hard HEAD~1; echo y > c; git add c; git commit -q -m 3", "",
		},
		{"index of version 4", "git update-index --index-version 4", stage + "add .envrc", ".envrc"},
		{"names of bytes", "", stage + `add "$(printf 'a\377/.envrc')"`, "a\xff/.envrc"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			if test.before != "" {
				p.sh(test.before)
			}
			got := p.run(test.run)
			for i, path := range got.Paths {
				if dir, ok := strings.CutPrefix(path, ".git/refs/replace/"); ok && len(dir) == 40 {
					got.Paths[i] = ".git/refs/replace/X"
				}
			}
			if text := strings.Join(got.Paths, " "); text != test.want || len(got.Unread) > 0 || got.More != 0 {
				t.Errorf("found %q, unread %q; want %q", text, got.Unread, test.want)
			}
			if again := p.run("true"); len(again.Paths)+len(again.Unread) > 0 {
				t.Errorf("told again: %+v", again)
			}
		})
	}
}

// An index that is changed in the moment after a look, with the same length and
// times as before, is read again.
func TestIndexChangedAtOnce(t *testing.T) {
	p := newProject(t)
	p.sh(stage + "add aenvrc")
	p.run("true")
	for _, name := range []string{".envrc", "benvrc", ".envrc"} { // what is not in HEAD either may go
		found := p.run("cp -p .git/index keep; " + stage + "git rm -q --cached '?envrc'; add " + name +
			"; cat .git/index > other; cat other > keep; touch -r .git/index keep; mv keep .git/index")
		if slices.Equal(found.Paths, []string{".envrc"}) != (name == ".envrc") {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// What cannot be looked through is told, by the repository's name.
func TestUnread(t *testing.T) {
	for name, script := range map[string]string{
		"too many commits": `t=$(git write-tree); c=$(git rev-parse HEAD); awk -v tree=$t -v c=$c 'BEGIN { print "reset refs/heads/many\nfrom " c "\n"; for (i = 0; i < 5001; i++) print "commit refs/heads/many\ncommitter a <a@b> " 2000000000+i " +0000\ndata 1\nx\n" }' | git fast-import --quiet`,
		"a missing tree":   `t=$(git hash-object -w -t tree /dev/null); git update-ref refs/heads/x $(git commit-tree -m x $t); rm -f .git/objects/$(echo $t | cut -c1-2)/$(echo $t | cut -c3-)`,
		"a pipe":           `rm .git/index; mkfifo .git/index`,
		"a split index":    `git update-index --split-index`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := newProject(t).run(script); !slices.Equal(found.Unread, []string{".git"}) {
				t.Errorf("%+v", found)
			}
		})
	}
}

func TestManyAreCounted(t *testing.T) {
	p := newProject(t)
	found := p.run(stage + `for i in $(seq 250); do printf "100644 $blob\td$i/.envrc\n"; done | git update-index --add --index-info`)
	if len(found.Paths) != maxPaths || found.More != 50 {
		t.Errorf("%d and %d", len(found.Paths), found.More)
	}
}

func TestBeginFails(t *testing.T) {
	_, missing := Begin(t.Context(), "/does/not/exist", seal.Default, []string{".git"}, nil)
	_, names := Begin(t.Context(), t.TempDir(), []string{"<"}, nil, nil)
	if !errors.Is(missing, os.ErrNotExist) || names == nil {
		t.Error(missing, names)
	}
}

// BenchmarkLook is what a run waits for in a repository whose index did not change.
func BenchmarkLook(b *testing.B) {
	p := newProject(b)
	p.sh(`for i in $(seq 50); do git branch b$i; done`)
	w, err := Begin(b.Context(), p.dir, seal.Default, []string{".git"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for b.Loop() {
		w.look(b.Context(), w.before)
	}
}
