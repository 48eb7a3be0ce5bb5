package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/client"
)

// hostile is what a repository's configuration makes git run on every look. It
// tries what would matter, and says that it ran.
const hostile = `#!/bin/sh
cd "$(git rev-parse --show-toplevel 2>/dev/null || pwd)"
echo ran >> ran
echo ran >&2
cat SECRET >> got 2>/dev/null
cat SECRET 2>/dev/null >&2
echo x > OUTSIDE 2>/dev/null
echo '[core] pager = evil' >> .git/config
printf '#!/bin/sh\n' > .git/hooks/post-checkout
mkdir -p .vscode && echo '{}' > .vscode/tasks.json
exit 1
`

// A look by git is a look by its words, and git is told by files what else to run.
// The class lets it run without a question; what holds then is the room.
func TestHostileRepositoryIsHeldByTheRoom(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.project()
	planted := t.TempDir()
	if err := os.Chmod(planted, 0o777); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(planted); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755)
	}
	secret, outside := filepath.Join(planted, "secret"), filepath.Join(planted, "outside")
	if err := os.WriteFile(secret, []byte("planted\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.put("evil", strings.NewReplacer("SECRET", secret, "OUTSIDE", outside).Replace(hostile))
	d.put(".gitattributes", "*.txt diff=evil\n")
	for _, kv := range [][]string{
		{"core.fsmonitor", "./evil"},
		{"core.pager", "./evil"},
		{"diff.external", "./evil"},
		{"diff.evil.textconv", "./evil"},
	} {
		cmd := exec.Command("git", "-C", d.work, "-c", "safe.directory=*", "config", kv[0], kv[1])
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	d.give(filepath.Join(d.work, ".git", "config"))
	config := d.text(".git/config")
	d.put("hay.txt", "needle\nmore\n")
	d.mustStart()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := d.client(client.OperatorDoor).AddWorkspace(ctx, d.work, "w"); err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, args := range [][]string{{"status"}, {"diff"}, {"log", "-p", "-1"}} {
		out, err := d.client(client.AgentDoor).Call(ctx, d.inRoom(nil, "git", args...), func(e client.CallEvent) {
			if e.ApprovalRequested != nil {
				t.Errorf("git %v asks: what the words say is a look", args)
				cancel()
			}
		})
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, d.log)
		}
		t.Logf("git %v: %s, exit %d", args, out.Outcome, out.ExitCode)
		said += out.Stdout + out.Stderr
		if p := predicate(t, out); p.Executor != "sandbox_tier_c_linux_bubblewrap" || p.Enforcement.Mode != "strict" {
			t.Errorf("executor %s, network %s", p.Executor, p.Enforcement.Mode)
		}
	}
	if !strings.Contains(said, "ran\n") {
		t.Errorf("the configuration ran nothing: this test shows nothing any more: %q", said)
	}
	if got := d.text("got"); got != "" || strings.Contains(said, "planted") || d.text("ran") != "" {
		t.Errorf("it got %q, said %q and left %q: a look leaves nothing", got, said, d.text("ran"))
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("it wrote outside")
	}
	if d.text(".git/config") != config || d.text(".git/hooks/post-checkout") != "" || d.text(".vscode/tasks.json") != "" {
		t.Error("it changed what is sealed")
	}
}

// text is a file of the workspace, or nothing.
func (d *daemon) text(name string) string {
	raw, _ := os.ReadFile(filepath.Join(d.work, name))
	return string(raw)
}
