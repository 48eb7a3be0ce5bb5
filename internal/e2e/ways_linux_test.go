package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/client"
)

// A way is something that a hostile repository's tests may leave behind, so that the person's own tools run it later.
type way struct {
	name    string
	before  string // what the person did in the project
	leaves  string // what the tests do; @C is a command that a person would notice
	use     string // what the person does afterwards, with the machine's own tools
	kept    bool   // it is ordinary work, and acts only where a person runs it
	outside string // prints something where the run wrote outside of the project
	unseen  bool   // that it acts cannot be shown here: the tool is not installed
}

// project is what each way begins with: a repository that is one commit behind where it was cloned from.
const wayProject = `
git init -q -b main --bare ../up.git
git clone -q ../up.git . 2>/dev/null; git checkout -q -b main
mkdir -p src sub docs tools scripts .github/workflows .vscode node_modules/pkg node_modules/.bin
for f in README src/a sub/b docs/c .github/workflows/ci.yml; do echo ordinary > $f; done
printf 'test:\n\t@sh ./way.sh\n' > Makefile
echo '{"name":"p","version":"1.0.0"}' > package.json
printf 'node_modules\nway.sh\n' > .gitignore
echo '{}' > .vscode/settings.json; echo 'module.exports = 1' > node_modules/pkg/index.js; echo '#!/bin/sh' > node_modules/.bin/pkg
git add .; git commit -q -m first; echo more >> README; git commit -q -a -m second; git push -q origin main
echo theirs > theirs; git add theirs; git commit -q -m theirs; git push -q origin main; git reset -q --hard HEAD~1
`

// wayBench is where ways are tried.
type wayBench struct {
	t    *testing.T
	top  string // for everybody
	from string // the project
	uid  uint32
}

// host runs a script with the machine's own tools, as whoever the projects belong to.
func (b *wayBench) host(t *testing.T, dir, script string) string {
	t.Helper()
	c := exec.Command("timeout", "-k", "1", "20", "/bin/sh", "-c", script)
	c.Dir = dir
	c.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(b.top, "home"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"TERM=dumb", "EDITOR=true", "npm_config_offline=true",
	}
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: b.uid, Gid: b.uid}}
	}
	out, _ := c.CombinedOutput() // what is tried may fail
	return string(out)
}

func newWayBench(t *testing.T, uid int) *wayBench {
	t.Helper()
	b := &wayBench{t: t, top: filepath.Join(t.TempDir(), "ways"), uid: uint32(uid)}
	b.from = filepath.Join(b.top, "from", "p")
	for dir := filepath.Dir(b.top); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(b.from, 0o755), os.MkdirAll(filepath.Join(b.top, "home"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{b.top, filepath.Dir(b.from), b.from, filepath.Join(b.top, "home")} {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if out := b.host(t, b.from, "set -e\n"+wayProject); out != "" {
		t.Fatal(out)
	}
	return b
}

// copied is a project of its own, and what would be there if its way worked.
func (b *wayBench) copied(t *testing.T, w way, as string) (dir, canary string) {
	t.Helper()
	top := filepath.Join(b.top, as)
	dir, canary = filepath.Join(top, "p"), filepath.Join(top, "canary")
	script := "cp -a " + filepath.Dir(b.from) + " " + top + " && git -C " + dir + " config remote.origin.url " + top + "/up.git"
	if out := b.host(t, b.top, script); out != "" {
		t.Fatal(out)
	}
	b.host(t, dir, w.filled(w.before, canary))
	if err := os.WriteFile(filepath.Join(dir, "way.sh"), []byte(w.filled(wayStart+w.leaves, canary)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(dir, "way.sh"), int(b.uid), int(b.uid)); err != nil {
		t.Fatal(err)
	}
	return dir, canary
}

// wayStart is what scripts of ways use: @C in a program of its own, and git without a person.
const wayStart = `
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
evil() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\n@C\n' > "$1"; chmod +x "$1"; }
put() { mkdir -p "$(dirname "$1")"; echo evil > "$1"; }
repository() { mkdir -p "$1/objects" "$1/refs/heads"; echo ref: refs/heads/main > "$1/HEAD"
	printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n\tfsmonitor = "@C; false"\n' "$PWD" > "$1/config"; }
staged() { git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),$1; }
`

func (w way) filled(text, canary string) string {
	return strings.ReplaceAll(text, "@C", "touch "+canary)
}

func lies(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// What the tests of a hostile repository leave behind does not act when the person's git, editor, shell or package
// manager merely opens, lists, commits or pulls: it is asked about before it is there. Each way is tried by using those
// tools, and without Palyra first, where it does act.
func TestNothingIsLeftBehindThatActs(t *testing.T) {
	if len(ways) < 40 {
		t.Errorf("%d ways", len(ways))
	}
	d := newDaemon(t)
	owner := d.ownWork()
	d.mustStart(shipped...)
	b := newWayBench(t, owner)
	person := d.client(client.OperatorDoor)
	raw, _ := json.Marshal(map[string]any{"command": "make", "args": []string{"test"}, "tier": "c"})
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			b.plain(t, w, i)
			b.tried(t, w, i, func(work string) palyra.Outcome {
				if _, err := person.AddWorkspace(t.Context(), work, ""); err != nil {
					t.Fatal(err)
				}
				out, err := d.client(client.AgentDoor).Call(t.Context(), client.CallRequest{
					Tool: "palyra.process.run", Arguments: raw, Workspace: work, Surface: palyra.SurfaceCLI,
					Session: w.name, NoWait: true,
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return out
			})
		})
	}
}

// An ordinary user's daemon keeps them off as root's does.
func TestNothingIsLeftBehindWithAnOrdinaryUsersDaemon(t *testing.T) {
	d := newDaemon(t)
	as := d.ordinary(shipped...)
	b := newWayBench(t, d.ownWork())
	for i, w := range waysNamed(t, "hook pre-commit", "fsmonitor", "the person's hooksPath", "a repository behind a link", "a rebase",
		"a workflow in a commit", "in the index alone", "an object with another's name",
		"settings of cargo behind a link", "what tests run") {
		b.tried(t, w, i, func(work string) (out palyra.Outcome) {
			if said, err := as("palyra", "workspace", "add", work).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			c := as("palyra", "exec", "--json", "--no-wait", "--", "make", "test")
			c.Dir = work
			said, _ := c.Output() // it may end with another code
			if err := json.Unmarshal(said, &out); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			return out
		})
	}
}

// plain tries a way without Palyra.
func (b *wayBench) plain(t *testing.T, w way, n int) {
	t.Helper()
	dir, canary := b.copied(t, w, fmt.Sprint("plain", n))
	b.host(t, dir, "sh ./way.sh")
	said := b.host(t, dir, w.filled(w.use, canary))
	if lies(canary) == (w.unseen || w.kept) {
		t.Errorf("without Palyra it acts: %v\n%s", lies(canary), said)
	}
}

// tried runs the tests of a project by Palyra, and then does what the person does.
func (b *wayBench) tried(t *testing.T, w way, n int, run func(work string) palyra.Outcome) {
	t.Helper()
	work, canary := b.copied(t, w, fmt.Sprint("tried", n))
	was := statesOf(t, work)
	out := run(work)
	is := statesOf(t, work)
	switch kept := out.Effects == palyra.EffectsKept; {
	case out.GrantID == "":
		t.Fatalf("%s: it did not run: %+v", w.name, out)
	case !kept && !reflect.DeepEqual(was, is):
		t.Errorf("%s: %s, and yet there is something else: %s", w.name, out.Effects, linesBetween(t, was, is))
	case w.kept && !kept:
		t.Errorf("%s: ordinary work is %s: %+v", w.name, out.Effects, out)
	case !w.kept && kept || len(out.Quarantined) > 0: // nothing is taken from a run before it is judged
		t.Errorf("%s: kept unasked:\n%s\n%s", w.name, linesBetween(t, was, is), out.Stdout+out.Stderr)
	}
	said := b.host(t, work, w.filled(w.use, canary)+"\ncd "+work+"\n"+wayLook)
	if lies(canary) {
		t.Errorf("%s: it acts (%s, quarantined %v):\n%s\n%s", w.name, out.Effects, out.Quarantined, said, linesBetween(t, was, is))
	}
	if w.outside != "" && b.host(t, work, w.outside) != "" {
		t.Errorf("%s: something outside is another one", w.name)
	}
}

// wayLook is what people do whatever they came for.
const wayLook = `git status >/dev/null; git diff >/dev/null; git log -1 -p >/dev/null
bash -ic 'cd sub; cd ../docs; ls' >/dev/null 2>&1
(cd sub; git status >/dev/null); (cd docs; git status > /dev/null); git stash list > /dev/null; git commit -q --allow-empty -m looked`

// waysNamed are those of a list of names, each of which there must be.
func waysNamed(t *testing.T, names ...string) (out []way) {
	t.Helper()
	for _, n := range names {
		i := slices.IndexFunc(ways, func(w way) bool { return w.name == n })
		if i < 0 {
			t.Fatalf("no way is called %q", n)
		}
		out = append(out, ways[i])
	}
	return out
}
