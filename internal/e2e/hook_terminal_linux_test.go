package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// codexAsks asks the hook as Codex does, and returns what it prints.
func (d *daemon) codexAsks(tool string, input map[string]any) []byte {
	d.t.Helper()
	cmd := d.palyra("hook", "codex")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader(d.preToolUse(tool, input)), &out
	if err := cmd.Run(); err != nil {
		d.t.Fatal(err)
	}
	return out.Bytes()
}

// TestHookOfCodex has what the real program was seen to do.
func TestHookOfCodex(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	t.Run("a terminal", func(t *testing.T) { atAnAgentsTerminal(t, d) })
	t.Run("a new file", func(t *testing.T) { patchThatAdds(t, d) })
}

// atAnAgentsTerminal: Codex gives its model a terminal for a command if it wants one, and types
// there what the model says. The question about a rewritten command is not put there, nor
// is it said what answers it.
func atAnAgentsTerminal(t *testing.T, d *daemon) {
	var says hookSays
	if err := json.Unmarshal(d.codexAsks("Bash", map[string]any{"command": "touch own"}), &says); err != nil {
		t.Fatal(err)
	}
	line, _ := says.Specific.Input["command"].(string)
	cmd := exec.Command("/bin/bash", "-c", line)
	cmd.Env = d.palyra().Environ()
	cmd.Dir = d.work
	c := atTerminal(t, cmd)
	c.find(`waiting for`)
	c.enter("allow")
	ctx, done := context.WithTimeout(t.Context(), waitMost)
	defer done()
	if _, err := d.decideNext(ctx, palyra.AnswerDeny); err != nil {
		t.Errorf("nothing is left to be decided: %v", err)
	}
	code, text := c.end()
	if code != 126 || exists(filepath.Join(d.work, "own")) || !strings.Contains(text, "approval_denied") {
		t.Errorf("exit %d: %s", code, text)
	}
	for _, word := range []string{"Type allow", "palyra approvals", "separation"} {
		if strings.Contains(text, word) {
			t.Errorf("an agent is shown %q:\n%s", word, text)
		}
	}
}

// patchThatAdds: a patch that adds a file is judged as the write it is: asked about, and it
// passes once it is allowed.
func patchThatAdds(t *testing.T, d *daemon) {
	answered := make(chan error, 1)
	go func() {
		a, err := d.decideNext(t.Context(), palyra.AnswerAllow)
		if err == nil && a.Plan.Tool != "palyra.fs.write" {
			t.Errorf("it is asked about as %s", a.Plan.Tool)
		}
		answered <- err
	}()
	out := d.codexAsks("apply_patch", map[string]any{"command": "*** Begin Patch\n*** Add File: sub/new.txt\n+new\n*** End Patch\n"})
	if string(out) != "{}\n" { // no word against it
		t.Fatalf("%s", out)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
