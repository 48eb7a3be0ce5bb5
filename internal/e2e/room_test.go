//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cell"
	"palyra/internal/exetest"
)

// inRoom proposes a program for tier C; more holds further arguments of the tool.
func (d *daemon) inRoom(more map[string]any, command string, args ...string) client.CallRequest {
	all := map[string]any{"command": command, "args": append([]string{}, args...), "tier": "c"}
	for k, v := range more {
		all[k] = v
	}
	raw, _ := json.Marshal(all)
	return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
}

// put makes a file of the workspace's owner.
func (d *daemon) put(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.work, name)
	for dir := filepath.Dir(path); dir != d.work; dir = filepath.Dir(dir) {
		defer d.give(dir)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := exetest.Write(path, []byte(text)); err != nil {
		d.t.Fatal(err)
	}
	d.give(path)
	return path
}

// give hands a file to the workspace's owner.
func (d *daemon) give(path string) {
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Lchown(path, someone, someone); err != nil {
		d.t.Fatal(err)
	}
}

// chore is something that is done by a line for the shell.
type chore struct {
	name, shell string
	want        string // in what it prints
}

// everyday is what developers do all day. Each line must come to a good end in
// tier C with nothing but its profile.
var everyday = []chore{
	{"git status", "git status --short", "?? "},
	{"git add and commit", "git add -A && git commit -q -m 'a commit' && git log --oneline && git diff HEAD~1 --stat", "a commit"},
	{"go build", "cd gomod && go build ./... && go vet ./... && go list -export ./...", "example.org/m"},
	{"node", "node -e 'const fs=require(\"fs\");fs.writeFileSync(\"n.txt\",\"x\");console.log(process.version)'", "v"},
	{"npm", "cd pkg && npm test --silent && npm pack --silent --offline", "tested"},
	{"python", "python3 -c 'import json,threading,ssl,sqlite3;print(json.dumps({\"a\":1}))'", `{"a": 1}`},
	{"make", "make -s", "made"},
	{"ripgrep", "rg -n needle", "needle"},
	{"a local server", `python3 -c '
import http.server,threading,urllib.request
s=http.server.HTTPServer(("127.0.0.1",0),http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever,daemon=True).start()
print(urllib.request.urlopen("http://127.0.0.1:%d/hay.txt"%s.server_port).status)'`, "200"},
	{"10,000 files", `mkdir many && i=0 && while [ $i -lt 10000 ]; do : > many/$i; i=$((i+1)); done; ls many | wc -l; rm -r many`, "10000"},
	{"devices and the clock", `head -c 4 /dev/urandom | wc -c; date +%Y > /dev/null && echo fine`, "fine"},
	{"odd names", `touch -- '-x y' "$(printf 'tab\there')" 'ünï' && ls | wc -l`, ""},
	{
		"a compiler", `printf 'int main(){return 0;}' > a.c && if command -v cc >/dev/null; then cc -o a a.c && ./a; fi; echo compiled`,
		"compiled",
	},
}

// testsGo compiles what tests need of Go's library first, which takes minutes on a busy
// machine: it is for 'make faults'. The suite of the tiers tests a program that has it.
const testsGo = `cd gomod && printf 'package m\n\nimport "testing"\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 {\n\t\tt.Fatal()\n\t}\n}\n' > m_test.go &&
go test -vet=off ./... && go vet ./...`

// project puts something to work on into the workspace.
func (d *daemon) project() {
	d.t.Helper()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{
			"-C", d.work, "-c", "safe.directory=*", "-c", "user.name=t", "-c",
			"user.email=t@example.org",
		}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			d.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	d.put("hay.txt", "needle\n")
	git("init", "-q")
	git("config", "user.name", "Someone")
	git("config", "user.email", "someone@example.org")
	git("add", "-A")
	git("commit", "-q", "-m", "the first")
	d.put("new.txt", "new\n")
	d.put("Makefile", "all:\n\t@echo made\n")
	d.put("gomod/go.mod", "module example.org/m\n\ngo 1.20\n")
	d.put("gomod/m.go", "package m\n\nfunc One() int { return 1 }\n")
	d.put("pkg/package.json", `{"name":"p","version":"1.0.0","scripts":{"test":"node -e 'console.log(\"tested\")'"}}`)
	err := filepath.WalkDir(d.work, func(path string, _ os.DirEntry, err error) error {
		d.give(path)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// The everyday list through the built daemon, for a workspace of an ordinary
// user: root's daemon runs it as that user, an ordinary user's as itself.
func TestEverydayWorkInARoom(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.project()
	d.mustStart("PALYRA_TOOL_CALL_EXECUTION_TIMEOUT_MS=600000") // what compiles the library is slow on a busy machine
	all := everyday
	if os.Getenv("PALYRA_FAULTS") == "full" {
		all = append(slices.Clone(all), chore{"go test", testsGo, "ok"})
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			raw, _ := json.Marshal(map[string]any{"script": c.shell, "tier": "c"})
			out, _ := d.allowed(client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI})
			if out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 || !strings.Contains(out.Stdout, c.want) {
				t.Fatalf("%s %d %s %s\nstdout: %s\nstderr: %s\n%s", out.Outcome, out.ExitCode, out.ReasonCode, out.Reason, out.Stdout, out.Stderr,
					d.log)
			}
			if p := predicate(t, out); p.Executor != "sandbox_tier_c_linux_bubblewrap" || p.Enforcement.Mode != "strict" {
				t.Errorf("executor %s, network %s", p.Executor, p.Enforcement.Mode)
			}
			if len(out.Quarantined) > 0 {
				t.Errorf("quarantined: %v", out.Quarantined)
			}
		})
	}
}

// What a program sees: nothing of homes, other processes, the daemon's sockets
// and state, and nothing with a capability.
func TestARoomHidesTheHost(t *testing.T) {
	d := newDaemon(t)
	owner := d.ownWork()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("planted"), 0o644); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(secret); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755)
	}
	d.mustStart()
	home, _ := os.UserHomeDir()
	out, _ := d.allowed(d.inRoom(nil, "/bin/sh", "-c", fmt.Sprintf(`
id -u
for p in %s %s/state.db %s/run %s /etc/shadow /root /var/log /sys/kernel /run/dbus; do
  if ls "$p" >/dev/null 2>&1 || cat "$p" >/dev/null 2>&1; then echo "SEEN $p"; fi
done
ls /proc | grep -c '^[0-9]' | sed 's/^/processes /'
grep CapEff /proc/self/status
grep NoNewPrivs /proc/self/status
tr '\0' '\n' < /proc/1/environ 2>&1 | head -3
env | sort | cut -d= -f1 | tr '\n' ' '
`, secret, d.home, d.home, home)))
	if out.ExitCode != 0 || strings.Contains(out.Stdout, "SEEN") || strings.Contains(out.Stdout, "planted") {
		t.Fatalf("%+v\n%s", out, out.Stdout)
	}
	uid := fmt.Sprint(owner)
	if owner == 0 {
		uid = "1000"
	}
	lines := strings.Split(out.Stdout, "\n")
	if lines[0] != uid {
		t.Errorf("it runs as %s, not %s", lines[0], uid)
	}
	for _, want := range []string{"CapEff:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(out.Stdout, want) {
			t.Errorf("no %q in\n%s", want, out.Stdout)
		}
	}
	p := predicate(t, out)
	for _, m := range []string{
		"bubblewrap", "user_namespace", "pid_namespace", "net_namespace", "mount_namespace", "seccomp", "capabilities_dropped", "egress_guard",
	} {
		if !slices.Contains(p.Enforcement.Mechanisms, m) {
			t.Errorf("%s is not attested: %v", m, p.Enforcement.Mechanisms)
		}
	}
}

// What something trusted runs later cannot be changed by a run that writes directly, and what is new of it is
// taken away before the outcome is given.
func TestSealedPathsStayAsTheyAre(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.project()
	d.put(".git/hooks/pre-commit", "#!/bin/sh\n")
	d.put(".vscode/tasks.json", "{}")
	d.mustStart()
	before := map[string]string{}
	for _, f := range []string{".git/config", ".git/hooks/pre-commit", ".vscode/tasks.json"} {
		b, err := os.ReadFile(filepath.Join(d.work, f))
		if err != nil {
			t.Fatal(err)
		}
		before[f] = string(b)
	}
	out, _ := d.allowed(d.inRoom(map[string]any{"live": true}, "/bin/sh", "-c", `
echo evil >> .git/config; echo evil > .git/hooks/pre-commit; echo evil > .git/hooks/post-commit; echo evil > .vscode/tasks.json
mv .git .git2; mv .git/hooks .git/h2; rm -rf .vscode; ln -f .git/config c2 && echo evil >> c2
mkdir -p deep/er && git init -q deep/er/repo; echo 'x' > deep/.envrc; mkdir -p sub/.vscode; echo fine > fine.txt
`))
	if out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", out)
	}
	for f, was := range before {
		if b, err := os.ReadFile(filepath.Join(d.work, f)); err != nil || string(b) != was {
			t.Errorf("%s changed: %q, %v", f, b, err)
		}
	}
	for _, gone := range []string{".git/hooks/post-commit", "deep/er/repo/.git", "deep/.envrc", "sub/.vscode", ".git2"} {
		if _, err := os.Lstat(filepath.Join(d.work, gone)); err == nil {
			t.Errorf("%s is there after the call", gone)
		}
	}
	if _, err := os.Stat(filepath.Join(d.work, "fine.txt")); err != nil {
		t.Error("what may be made was not:", err)
	}
	for _, want := range []palyra.PathText{"deep/er/repo/.git", "deep/.envrc", "sub/.vscode"} {
		if !slices.Contains(out.Quarantined, want) {
			t.Errorf("%s is not named: %v", want, out.Quarantined)
		}
	}
	p := predicate(t, out)
	if !slices.Equal(p.Quarantined, out.Quarantined) || !slices.Contains(p.Enforcement.Mechanisms, cell.SealedPaths) {
		t.Errorf("attested: %v, %v", p.Quarantined, p.Enforcement.Mechanisms)
	}
}

// A run names its files as it likes, with bytes that are no text, and makes as many
// as it likes: it is attested all the same, and the record stays small.
func TestNamesOfARunDoNotKeepItFromBeingAttested(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.project()
	d.mustStart()
	out, _ := d.allowed(d.inRoom(map[string]any{"live": true}, "/bin/sh", "-c", `
n=$(printf 'a\377'); mkdir "$n" 'changed: b' '… and 3 more'; for d in "$n" 'changed: b' '… and 3 more'; do echo evil > "$d/.envrc"; done
`))
	p := predicate(t, out)
	if out.Outcome != palyra.OutcomeFinished || len(p.Reduced) > 0 || !slices.Equal(p.Quarantined, out.Quarantined) {
		t.Fatalf("%+v\n%+v", out, p)
	}
	for _, want := range []palyra.PathText{`"a\xff/.envrc"`, `"… and 3 more/.envrc"`, "changed: b/.envrc"} {
		if !slices.Contains(out.Quarantined, want) {
			t.Errorf("%s is not named: %v", want, out.Quarantined)
		}
	}
	out, _ = d.allowed(d.inRoom(map[string]any{"live": true}, "/bin/sh", "-c", `
long=$(head -c 200 /dev/zero | tr '\0' x); deep=$long; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do deep=$deep/$long; done
mkdir -p "$deep"; cd "$deep"; i=0; while [ $i -lt 1050 ]; do mkdir $i; echo evil > $i/.envrc; i=$((i+1)); done
`))
	text, err := out.Marshal()
	if err != nil || out.Outcome != palyra.OutcomeFinished || len(text) > 64<<10 {
		t.Errorf("%d bytes, %v: %.1000s", len(text), err, text)
	}
	if n := len(out.Quarantined); n < 2 || !strings.HasSuffix(string(out.Quarantined[n-1]), " more") {
		t.Errorf("%d names: %.200q", n, out.Quarantined)
	}
	if d.stop(); d.log.Len() > 64<<10 {
		t.Errorf("the log has %d bytes", d.log.Len())
	}
}

// Limits that only count are not good enough for who says so.
func TestLimitsCanBeRequired(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart("PALYRA_PROCESS_CGROUP=off")
	out, err := d.client(client.AgentDoor).Call(t.Context(), d.inRoom(map[string]any{"require_limits": true}, "/bin/true"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.Outcome != palyra.OutcomeRefused || out.ReasonCode != palyra.ReasonWeakEnforcement {
		t.Errorf("%+v", out)
	}
	out, _ = d.allowed(d.inRoom(nil, "/bin/true"))
	if p := predicate(t, out); p.Enforcement.Limits["memory"] != "polled" || slices.Contains(p.Enforcement.Mechanisms, "cgroup_v1") {
		t.Errorf("%+v", p.Enforcement)
	}
}

// Without bubblewrap tier C refuses and says what to do; nothing runs elsewhere.
func TestNoRoomWithoutBubblewrap(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart("PALYRA_PROCESS_BWRAP=/nonexistent/bwrap")
	out, err := d.client(client.AgentDoor).Call(t.Context(), d.inRoom(nil, "/bin/true"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.Outcome != palyra.OutcomeRefused || out.ReasonCode != palyra.ReasonTierUnavailable || !strings.Contains(out.Remedy, "bubblewrap") {
		t.Errorf("%s %s: %s (%s)", out.Outcome, out.ReasonCode, out.Reason, out.Remedy)
	}
}
