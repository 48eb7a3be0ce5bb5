package bubble

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/sandbox/celltest"
	"palyra/internal/trusted"
)

// makesAll makes the files of a list, and changesAll tries to change them in every way: one program does, since each
// process of a shell costs more than what it tries.
const (
	tries = `import os
def tried(f, *args):
    try: return f(*args)
    except OSError: pass
def write(p, mode):
    with open(p, mode) as f: f.write("evil\n")
names = open("list").read().splitlines()
`
	makesAll = tries + `
for p in names:
    tried(os.makedirs, os.path.dirname(p) or ".", 0o755, True)
    tried(write, p, "w")
print(sum(map(os.path.isfile, names)))
`
	changesAll = tries + `
for p in names:
    tried(write, p, "a")
    tried(os.unlink, p)
    tried(os.rename, p, "gone")
    tried(os.unlink, p)
    tried(os.symlink, "/etc/passwd", p)
    tried(os.symlink, "/etc/passwd", "aside")
    tried(os.rename, "aside", p)
tried(os.rename, "old", "new")
`
)

// TestBackendHoldsTrusted: of the one list that policy guards by, a run leaves
// nothing behind that it made, at any depth and in any case, and changes nothing
// that was there.
func TestBackendHoldsTrusted(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		fresh, old := newSite(t, who), newSite(t, who)
		fresh.repository()
		var made, there []string
		for _, name := range trusted.With(trusted.Held) {
			if strings.HasPrefix(name, ".git/") || strings.HasPrefix(name, trusted.Repository) || strings.HasSuffix(name, "/") {
				continue // the other tests are about these
			}
			p := strings.ReplaceAll(name, "*", "x")
			made = append(made, p, "sub/dir/"+strings.ToUpper(p), "a b/"+p)
			old.dir(filepath.Dir(filepath.Join("old", p)))
			if !exists(filepath.Join(old.workspace, "old", p)) {
				old.file(filepath.Join("old", p), "person's\n")
				there = append(there, filepath.Join("old", p))
			}
		}
		fresh.file("list", strings.Join(made, "\n")+"\n")
		if x := runJob(t, b, fresh.job("/usr/bin/python3", "-c", makesAll)); x.Code != 0 || fresh.printed() != fmt.Sprint(len(made)) {
			t.Errorf("%q of %d were made at first, %+v", fresh.printed(), len(made), x)
		}
		for _, p := range made {
			if fi, err := os.Lstat(filepath.Join(fresh.workspace, p)); err == nil && fi.Mode().IsRegular() {
				t.Errorf("%s remains", p)
			}
		}
		old.file("list", strings.Join(there, "\n")+"\n")
		if x := runJob(t, b, old.job("/usr/bin/python3", "-c", changesAll)); x.Code != 0 {
			t.Errorf("%+v %s", x, old.printed())
		}
		for _, p := range there {
			if got, err := os.ReadFile(filepath.Join(old.workspace, p)); string(got) != "person's\n" {
				t.Errorf("%s is %q, %v", p, got, err)
			}
		}
	})
}

// TestBackendHoldsRemotes: git takes where to fetch from and push to out of files
// that its configuration knows nothing of. A run leaves none, with the directory
// that git init makes for them and without, and a repository that has one keeps it.
func TestBackendHoldsRemotes(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		s.repository()
		s.dir(".git/branches")
		runJob(t, b, s.job("/bin/sh", "-c",
			`mkdir -p .git/remotes; echo 'URL: /evil' > .git/remotes/origin; echo /evil > .git/branches/origin; echo x > .git/refs/x; true`))
		out, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", s.workspace, "ls-remote", "--get-url", "origin").
			CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "origin" { // nobody but itself stands for it
			t.Errorf("origin is %q, %v", out, err)
		}
		if exists(filepath.Join(s.workspace, ".git/remotes")) || !exists(filepath.Join(s.workspace, ".git/branches")) ||
			!exists(filepath.Join(s.workspace, ".git/refs/x")) {
			t.Error("remotes are left, or what may be written is not")
		}
	})
}
