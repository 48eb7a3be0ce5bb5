package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/client"
)

// newcomer is somebody with agents and without Palyra.
type newcomer struct {
	*daemon
	user string // their home
}

func newNewcomer(t testing.TB, agents ...string) newcomer {
	t.Helper()
	n := newcomer{newDaemon(t), t.TempDir()}
	for _, dir := range agents {
		if err := os.MkdirAll(filepath.Join(n.user, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = n.types("down").Run() })
	return n
}

// types is a command of theirs in their project.
func (n newcomer) types(args ...string) *exec.Cmd {
	cmd := n.palyra(args...)
	cmd.Dir = n.work
	cmd.Env = append(cmd.Environ(), "HOME="+n.user, "PATH=/usr/bin:/bin", "PALYRA_HOME="+n.home)
	return cmd
}

// settings is what an agent's settings say.
func (n newcomer) settings(path string) string {
	raw, _ := os.ReadFile(filepath.Join(n.user, path))
	return string(raw)
}

// Five questions on a terminal leave a working set-up: the hooks of the agents that are there ask a daemon that runs,
// in a directory that is registered, and calls are observed.
func TestSetupAsksFiveQuestions(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, ".claude", ".codex", ".nvm/versions/node/v22.3.0/bin")
	c := atTerminal(t, n.types("setup"))
	for _, q := range []struct{ question, typed string }{
		{`1\. .*Node\.js.*\? \[Y/n\]`, ""},
		{`2\. .*Start it\? \[Y/n\]`, "y"},
		{`3\. .*may agents work`, ""},
		{`4\. .*claude-code, codex\? \[Y/n\]`, "yes"},
		{`5\. .*Observe first\?`, ""},
	} {
		c.find(q.question)
		c.enter(q.typed)
	}
	code, text := c.end()
	if code != 0 || !strings.Contains(text, "now start your agent") {
		t.Fatalf("exit %d: %s", code, text)
	}
	for _, path := range []string{".claude/settings.json", ".codex/hooks.json"} {
		if !strings.Contains(n.settings(path), " --observe") {
			t.Errorf("%s: %s", path, n.settings(path))
		}
	}
	person := n.client(client.OperatorDoor)
	if o, err := person.Observation(t.Context()); err != nil || !o.On || time.Until(o.Until) > 7*24*time.Hour {
		t.Errorf("%+v, %v", o, err)
	}
	if list, err := person.Workspaces(t.Context()); err != nil || len(list) != 1 || list[0].Path != n.work {
		t.Errorf("%+v, %v", list, err)
	}
	push := n.preToolUse("Bash", map[string]any{"command": "git push"})
	if says, code, errs := n.hook(push, "--observe"); code != 0 || says.Specific.Decision != "" {
		t.Errorf("%d %+v %s", code, says, errs)
	}
	again, err := n.types("setup", "--yes", "--json").Output()
	if err != nil || strings.Contains(string(again), "observe start") || strings.Contains(string(again), "error") {
		t.Errorf("once more: %v %s", err, again)
	}
}

// Whoever says no to a question has that left as it is, and what --hold and --print say is what is done.
func TestSetupHeedsNo(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, ".claude")
	out, err := n.types("setup", "--print").CombinedOutput()
	if err != nil || exists(filepath.Join(n.home, "state.db")) || n.settings(".claude/settings.json") != "" {
		t.Fatalf("--print did something: %v %s", err, out)
	}
	for _, line := range []string{
		"palyra up --detach\n", "palyra workspace add " + n.work, "palyra hook install claude-code --observe\n", "palyra observe start\n",
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("--print does not say %q: %s", line, out)
		}
	}
	c := atTerminal(t, n.types("setup"))
	c.find(`1\. .*Start it`) // there are no toolchains to be asked about
	c.enter("n")
	if code, text := c.end(); code != 0 || exists(filepath.Join(n.home, "state.db")) || !strings.Contains(text, "palyra up --detach") {
		t.Errorf("a daemon was started against a no: %d %s", code, text)
	}
	if out, err := n.types("setup").CombinedOutput(); err == nil || !strings.Contains(string(out), "nobody to ask") {
		t.Errorf("without a terminal: %v %s", err, out)
	}
	raw, err := n.types("setup", "--yes", "--hold", "--json").Output()
	var report struct {
		Agents []string
		Steps  []struct {
			Command string
			Done    bool
		}
	}
	if err != nil || json.Unmarshal(raw, &report) != nil || len(report.Agents) != 1 || len(report.Steps) != 3 {
		t.Fatalf("%v %s", err, raw)
	}
	o, err := n.client(client.OperatorDoor).Observation(t.Context())
	if err != nil || o.On || strings.Contains(n.settings(".claude/settings.json"), "--observe") {
		t.Errorf("observed against --hold: %+v %v", o, err)
	}
	c = atTerminal(t, n.types("setup"))
	c.find(`1\. .*may agents work`)
	c.enter("./nope")
	c.find(`nope is no directory`)
	c.find(`1\. .*may agents work`)
	c.enter("none")
	c.find(`2\. .*claude-code`)
	c.enter("n")
	if code, text := c.end(); code != 0 || !strings.Contains(text, "nothing was done") {
		t.Errorf("all of it refused: %d %s", code, text)
	}
	save(t, filepath.Join(n.user, ".claude", "settings.json"), []byte("{\n  \"a\":"))
	said, err := n.types("setup", "--yes").CombinedOutput()
	why := "palyra: " + filepath.Join(n.user, ".claude", "settings.json") + ": the file cannot be changed: it is cut off"
	if err == nil || strings.Count(string(said), why) != 2 || strings.Count(string(said), "remedy: put the lines of --print") != 2 {
		t.Errorf("a step that fails: %v %s", err, said)
	}
}
