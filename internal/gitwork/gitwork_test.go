package gitwork

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/gitrepo"
)

// sh runs a script in a directory with nobody's configuration of git.
func sh(t *testing.T, dir, script string) {
	t.Helper()
	c := exec.Command("/bin/sh", "-e", "-c", script)
	c.Dir = dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

type file struct {
	digest string
	size   int64
}

func filesOf(t *testing.T, dir string) map[string]file {
	t.Helper()
	out := map[string]file{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[rel] = file{fmt.Sprintf("%x", sha256.Sum256(b)), int64(len(b))}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lost is what a script takes from a project.
func lost(t *testing.T, setup, script string) Lost {
	t.Helper()
	before, after, all := ran(t, setup, script)
	return Look(t.Context(), before, after, all, "")
}

// ran is a project before and after a script.
func ran(t *testing.T, setup, script string) (_, _ gitrepo.Files, all []Change) {
	t.Helper()
	was, is := t.TempDir(), t.TempDir()
	sh(t, was, `git init -q -b main; mkdir src; for i in 1 2 3 4; do echo $i > src/$i; done; git add .; git commit -q -m 0
echo 1b > src/1; git commit -q -a -m 1
`+setup)
	sh(t, was, "cp -a . "+is)
	sh(t, is, script)
	before, after := filesOf(t, was), filesOf(t, is)
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, p := range slices.Sorted(maps.Keys(names)) {
		a, had := before[p]
		b, has := after[p]
		if a != b {
			all = append(all, Change{Path: p, Was: a.digest, Now: b.digest, Had: had, Has: has, Size: a.size, Left: b.size})
		}
	}
	open := func(dir string) gitrepo.Files {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Close() })
		return gitrepo.Root(root)
	}
	return open(was), open(is), all
}

// Edits that no commit has and commits that no ref has any more are told when they go, and ordinary work is not.
func TestLost(t *testing.T) {
	const side = "git checkout -q -b side; echo s > s; git add s; git commit -q -m s; git checkout -q main; "
	const edit = "echo mine >> src/2; echo new > src/new; echo staged >> src/3; git add src/3; "
	for _, c := range []struct{ name, setup, run, edits, refs string }{
		{"nothing", edit, "true", "", ""},
		{"ordinary work", "", "echo x > src/2; git commit -q -a -m 2; git branch b; git tag t; git checkout -q -b c", "", ""},
		{"an edit on top", edit, "echo more >> src/2; sed -i s/4/5/ src/4; echo more >> src/3", "", ""},
		{"committed", edit, "git add .; git commit -q -m 2; echo again > src/2", "", ""},
		{"reset", edit, "git reset -q --hard", "src/2 src/3", ""},
		{"checked out", edit, "git checkout -q -- src/2", "src/2", ""},
		{"restored from an older commit", edit, "git checkout -q HEAD~1 -- src", "src/2 src/3", ""},
		{"by hand", edit, "git show HEAD:src/2 > src/2", "src/2", ""},
		{"removed", edit, "rm src/2 src/4", "src/2", ""},
		{"moved", edit, "mv src/2 src/9", "", ""},
		{"another branch", edit, "git checkout -q -f -b x HEAD~1", "src/2 src/3", ""},
		{"stashed", edit, "git stash -q", "", ""},
		{"stashed and put back", edit, "git stash -q; git stash pop -q", "", ""},
		{"stashed and dropped", edit, "git stash -q; git stash drop -q", "src/2 src/3", ""},
		{"a stash put back", edit + "git stash -q", "git stash pop -q", "", ""},
		{"a stash dropped", edit + "git stash -q", "git stash drop -q", "", "refs/stash"},
		{"an older stash dropped", edit + "git stash -q; echo x > src/4; git stash -q", "git stash drop -q stash@{1}", "", "refs/stash"},
		{"a branch rewound, and git remembers", "", "git reset -q --hard HEAD~1", "", ""},
		{"a branch rewound behind the back of git", "", "git rev-parse HEAD~1 > x; mv x .git/refs/heads/main", "", ""},
		{
			"and forgets", "", "git reset -q --hard HEAD~1; git reflog expire --expire=now --all", "",
			"logs/HEAD logs/refs/heads/main refs/heads/main",
		},
		{
			"and its commit is gone", "",
			"o=$(git rev-parse HEAD | sed 's,^..,&/,'); git update-ref refs/heads/main HEAD~1; rm -f .git/objects/$o", "", "refs/heads/main",
		},
		{"and another has it", "git branch keep", "git reset -q --hard HEAD~1", "", ""},
		{"an amended commit", "", "git commit -q --amend -m other", "", ""},
		{"a rebased commit", side + "git checkout -q side", "git rebase -q main~1", "", ""},
		{"a branch deleted", side, "git branch -q -D side", "", "refs/heads/side"},
		{"a merged branch deleted", side + "git merge -q side", "git branch -q -d side", "", ""},
		{"a branch renamed", "git branch side", "git branch -m side other", "", ""},
		{"packed", "git branch side", "git pack-refs --all; git gc -q", "", ""},
		{"forgotten", "", "git reflog expire --expire=now --all", "", "logs/HEAD logs/refs/heads/main"},
		{"a tag deleted", side + "git tag s side; git branch -q -D side", "git tag -d s", "", "refs/tags/s"},
		{
			"in a project below", "git init -q sub; cd sub; echo 1 > a; git add a; git commit -q -m 0; echo 2 > a", "cd sub; git reset -q --hard",
			"sub/a", "",
		},
		{"a broken repository", edit, "echo x > .git/HEAD; rm src/2", "src/2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := lost(t, c.setup, c.run)
			if e, r := strings.Join(got.Uncommitted, " "), strings.Join(got.Rewound, " "); e != c.edits || r != c.refs {
				t.Errorf("%q and %q, want %q and %q", e, r, c.edits, c.refs)
			}
		})
	}
}

// The share is of the files that git knows.
func TestShare(t *testing.T) {
	for script, want := range map[string]int64{"echo x > new": 0, "echo x > src/1": 25, "rm -r src": 100, "rm -rf .git": -1} {
		if got := lost(t, "", script); got.Share != want {
			t.Errorf("%s: %d per cent, want %d", script, got.Share, want)
		}
	}
}

// Edits in more repositories than are looked at are counted, so that nobody takes what is told for all that goes.
func TestRepositoriesBeyondTheBoundAreCounted(t *testing.T) {
	setup := "git init -q --template= one; (cd one; echo 1 > a; git add a; git commit -q -m 0; echo 2 > a); " +
		"for i in $(seq 66); do cp -a one repo$i; done; rm -rf one"
	got := lost(t, setup, "for i in $(seq 66); do echo 1 > repo$i/a; done")
	if len(got.Uncommitted) != maxRepositories || got.Omitted != 2 {
		t.Errorf("%d told and %d counted, want %d and 2", len(got.Uncommitted), got.Omitted, maxRepositories)
	}
	if got := lost(t, "", "echo x > src/1; git commit -q -a -m 2"); got.Omitted != 0 {
		t.Errorf("%d changes of a small project are counted as left out", got.Omitted)
	}
}

// Git itself puts back a ref that stands in a log. Tags and deleted branches often do not.
func TestUnlogged(t *testing.T) {
	const side = "git checkout -q -b side; echo s > s; git add s; git commit -q -m s; git checkout -q main; "
	const quiet = "git update-ref refs/heads/quiet $(git commit-tree -m q HEAD^{tree}); " // HEAD was never there
	for _, c := range []struct {
		name, setup, run string
		want             bool
	}{
		{"a commit", "", "echo x > src/2; git commit -q -a -m 2; git tag t; git branch b", false},
		{"a branch rewound", "", "git reset -q --hard HEAD~1", false},
		{"and its log emptied", "", "git reset -q --hard HEAD~1; git reflog expire --expire=now --all", true},
		{"a deleted branch that was checked out", side, "git branch -q -D side", false},
		{"a deleted branch", quiet, "git branch -q -D quiet", true},
		{
			"a deleted branch that others contain", quiet + "git merge -q --no-ff -m m quiet --allow-unrelated-histories",
			"git branch -q -D quiet", true,
		},
		{"a packed branch deleted", quiet + "git pack-refs --all", "git branch -q -D quiet", true},
		{"by hand", quiet + "git pack-refs --all", "sed -i /quiet/d .git/packed-refs; rm -r .git/logs/refs/heads/quiet", true},
		{"a packed branch", quiet, "git pack-refs --all", false},
		{"a renamed branch", quiet, "git branch -m quiet other", false},
		{"an annotated tag deleted", "git tag -a -m t v1", "git tag -d v1", true},
		{"an annotated tag moved", "git tag -a -m t v1", "git tag -f -a -m u v1 HEAD~1", true},
		{"a tag of a commit that HEAD had", "git tag v1", "git tag -d v1", false},
		{"a note", "git notes add -m n", "git update-ref -d refs/notes/commits", true},
		{
			"what was fetched", quiet + "git update-ref refs/remotes/o/q quiet; git branch -q -D quiet",
			"git update-ref -d refs/remotes/o/q", false,
		},
		{
			"another work tree had it", quiet + "git worktree add -q wt quiet",
			"git worktree add -q two; rm -r .git/logs/refs; git update-ref -d refs/heads/quiet", false,
		},
		{"a broken repository", "", "rm .git/HEAD", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, after, _ := ran(t, c.setup, c.run)
			if got := Unlogged(t.Context(), before, after, ".git"); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
