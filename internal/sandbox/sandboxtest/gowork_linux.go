package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/sandbox"
)

// goTool is where Go is expected.
const goTool = "/usr/local/go/bin/go"

// hello is a program with a test.
var hello = map[string]string{
	"go.mod":  "module hello\n",
	"main.go": "package main\n\nfunc main() { println(text()) }\n\nfunc text() string { return \"built\" }\n",
	"main_test.go": "package main\n\nimport \"testing\"\n\nfunc TestText(t *testing.T) {\n\tif text() != \"built\" " +
		"{\n\t\tt.Fatal(text())\n\t}\n}\n",
}

var goEnv = []string{"GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "GOTELEMETRY=off", "GOPROXY=off"}

// goBuild builds and tests a program. The library is compiled inside only where
// the suite takes its time; otherwise a cache is there that holds it.
func goBuild(t *testing.T, b *bench) {
	t.Helper()
	if _, err := os.Stat(goTool); err != nil {
		t.Logf("UNPROVEN HERE: there is no %s", goTool)
		return
	}
	dir := b.ws + "/hello"
	b.dir(t, dir)
	for name, text := range hello {
		b.file(t, "hello/"+name, text)
	}
	if !unhurried(t) {
		b.warmCache(t, b.ws+"/gocache")
	}
	script := goTool + " build -o hello . && ./hello && " + goTool + " test -vet=off -count=1 . && " + goTool + " env GOCACHE"
	e := b.works(t, order{argv: []string{"sh", "-c", script}, cwd: "/hello", env: append(goEnv, "GOCACHE="+b.ws+"/gocache"), slow: true})
	if !strings.Contains(e.stderr, "built\n") || !strings.Contains(e.stdout, "ok") {
		t.Errorf("go: %q %q", clip(e.stdout), clip(e.stderr))
	}
	check(t, os.RemoveAll(b.ws+"/gocache"))
}

// warmCache gives the owner a cache with what the program needs.
func (b *bench) warmCache(t *testing.T, to string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cp", "-r", filepath.Join(builtDir(), "gocache"), to)
	cmd.SysProcAttr = b.who.credential()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// seedCache makes the cache that the others are copies of, from the one that built this suite, so
// that nothing is compiled twice.
func seedCache(t *testing.T, probe string) {
	t.Helper()
	seed := filepath.Join(builtDir(), "gocache")
	if _, err := os.Stat(goTool); err != nil || unhurried(t) {
		return
	}
	if _, err := os.Stat(seed); err == nil {
		return
	}
	dir := passable(t)
	for name, text := range hello {
		readable(t, dir+"/"+name, text)
	}
	own, err := exec.CommandContext(t.Context(), goTool, "env", "GOCACHE").Output()
	check(t, err)
	check(t, os.Mkdir(seed, 0o755))
	for _, args := range []string{"build -o /dev/null .", "test -vet=off -c -o /dev/null ."} {
		cmd := exec.CommandContext(t.Context(), goTool, strings.Fields(args)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), append(goEnv, "GOCACHEPROG="+probe+" gocache "+strings.TrimSpace(string(own))+" "+seed)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args, err, out)
		}
	}
}

// ownRepository is git in a repository whose configuration is sealed.
func ownRepository(t *testing.T, b *bench) {
	t.Helper()
	dir := b.ws + "/repository"
	b.dir(t, dir)
	b.project(t, dir)
	script := `set -e; echo y >> file; git status --short; git diff | cat; git add file; git commit -q -m two; git log --oneline | wc -l
git checkout -q -b side; echo z > new; git add new; git commit -q -m three; git checkout -q main; git merge -q side; git rebase -q HEAD~1; git tag t
echo w >> file; git stash -q; git stash pop -q; git restore file; git mv new moved; git commit -q -m four; git branch -d side; git show --stat | cat; git blame file
git gc -q; git fsck; git reset -q --hard HEAD~1; git clean -nd; git reflog | head -3; git rev-parse HEAD; git ls-files | wc -l; git grep -n text; git cherry-pick -n HEAD || true; git worktree list; echo done`
	o := order{
		argv: []string{"sh", "-c", script}, cwd: "/repository",
		env:    []string{"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"},
		change: func(j *sandbox.Job) { j.Seals = b.Seals },
	}
	e := b.works(t, o)
	if !strings.HasSuffix(e.stdout, "done\n") || len(e.Quarantined) > 0 {
		t.Errorf("git: quarantined %q: %q %q", e.Quarantined, clip(e.stdout), clip(e.stderr))
	}
}
