//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// preToolUse is what Claude Code gives to its hook.
func (d *daemon) preToolUse(tool string, input map[string]any) string {
	d.t.Helper()
	raw, err := json.Marshal(map[string]any{
		"session_id": "4c1f6f0e-2b3a-4f0b-9d7a-1f2e3d4c5b6a", "transcript_path": filepath.Join(d.work, "t.jsonl"), "cwd": d.work,
		"permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "tool_use_id": "toolu_01",
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}

// hookSays is the hook's answer.
type hookSays struct {
	Specific struct {
		Event    string         `json:"hookEventName"`
		Decision string         `json:"permissionDecision"`
		Reason   string         `json:"permissionDecisionReason"`
		Input    map[string]any `json:"updatedInput"`
	} `json:"hookSpecificOutput"`
}

// hook asks the built command, as Claude Code does.
func (d *daemon) hook(stdin string, args ...string) (says hookSays, code int, stderr string) {
	d.t.Helper()
	cmd := d.palyra(append([]string{"hook", "claude-code"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	_ = cmd.Run()
	code = cmd.ProcessState.ExitCode()
	if code == 0 {
		if err := json.Unmarshal(out.Bytes(), &says); err != nil {
			d.t.Fatalf("%q: %v", out.String(), err)
		}
	} else if out.Len() > 0 {
		d.t.Errorf("a failure, and yet %q", out.String())
	}
	return says, code, errs.String()
}

// inWorkspace registers the workspace.
func (d *daemon) inWorkspace() {
	d.t.Helper()
	if _, err := d.client(client.OperatorDoor).AddWorkspace(d.t.Context(), d.work, ""); err != nil {
		d.t.Fatal(err)
	}
}

// decideNext answers the next question that is open, and returns it.
func (d *daemon) decideNext(ctx context.Context, answer palyra.Answer) (palyra.Approval, error) {
	return d.answerNext(ctx, answer, palyra.ScopeOnce)
}

// answerNext is decideNext with a scope.
func (d *daemon) answerNext(ctx context.Context, answer palyra.Answer, scope palyra.Scope) (palyra.Approval, error) {
	person := d.client(client.OperatorDoor)
	for {
		page, err := person.Approvals(ctx, client.ApprovalFilter{Pending: true})
		if err != nil {
			return palyra.Approval{}, err
		}
		if len(page.Approvals) > 0 {
			a, err := person.Approval(ctx, page.Approvals[0].ID)
			if err != nil {
				return a, err
			}
			_, err = person.Decide(ctx, client.DecideRequest{ID: a.ID, Digest: a.PlanDigest, Answer: answer, Scope: scope})
			return a, err
		}
		select {
		case <-ctx.Done():
			return palyra.Approval{}, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A file of the workspace is read without a question, one outside never; a write is
// asked about, once for each, and says that nothing holds it.
func TestHookChecksTheAgentsOwnTools(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	file := filepath.Join(d.work, "a.txt")
	save(t, file, []byte("one\n"))

	if says, code, errs := d.hook(d.preToolUse("Read", map[string]any{"file_path": file})); code != 0 || says.Specific.Decision != "allow" {
		t.Fatalf("a read: %d %+v %s", code, says, errs)
	}
	outside := d.preToolUse("Read", map[string]any{"file_path": "/etc/passwd"})
	if says := d.hookSoon(outside); says.Specific.Decision != "deny" || !strings.Contains(says.Specific.Reason, "approval") ||
		strings.Contains(says.Specific.Reason, "palyra approvals") {
		t.Fatalf("a read outside: %+v", says)
	}
	q, err := d.answerNext(t.Context(), palyra.AnswerAllow, palyra.ScopeSession)
	if err != nil || !strings.Contains(q.Prompt.Summary, `read "/etc/passwd"`) {
		t.Fatalf("the question reads %+v: %v", q.Prompt, err)
	}
	for _, offset := range []int{0, 10} { // one answer covers the file for the session
		again := d.preToolUse("Read", map[string]any{"file_path": "/etc/passwd", "offset": offset})
		if says, code, _ := d.hook(again); code != 0 || says.Specific.Decision != "allow" {
			t.Fatalf("a read outside, after the answer: %d %+v", code, says)
		}
	}
	key := d.preToolUse("Read", map[string]any{"file_path": filepath.Join(d.home, "operator.key")})
	if says, code, _ := d.hook(key); code != 0 || says.Specific.Decision != "deny" ||
		!strings.Contains(says.Specific.Reason, "outside the workspace") || !strings.Contains(says.Specific.Reason, "inside "+d.work) {
		t.Fatalf("a read of the operator's key: %d %+v", code, says)
	}
	edit := d.preToolUse("Edit", map[string]any{"file_path": file, "old_string": "one", "new_string": "two"})
	if says := d.hookSoon(edit); says.Specific.Decision != "deny" || !strings.Contains(says.Specific.Reason, "approval") {
		t.Fatalf("an edit that nobody answers: %+v", says)
	}
	a, err := d.decideNext(t.Context(), palyra.AnswerAllow)
	if err != nil {
		t.Fatal(err)
	}
	if a.Surface != palyra.SurfaceHook || a.Plan.Tier != palyra.TierUnsandboxed ||
		!strings.Contains(a.Prompt.Title, "outside any sandbox") || a.Prompt.Notes[0] != palyra.UnsandboxedNote ||
		!strings.Contains(a.Prompt.Diff, "-one") || !strings.Contains(a.Prompt.Diff, "+two") {
		t.Errorf("the question reads %+v", a.Prompt)
	}
	shown, err := d.palyra("approvals", "show", string(a.ID)).CombinedOutput()
	if err != nil || !bytes.Contains(shown, []byte("NO SANDBOX")) {
		t.Errorf("%s %v", shown, err)
	}
	if says, code, errs := d.hook(edit); code != 0 || says.Specific.Decision != "allow" {
		t.Fatalf("the same edit after the answer: %d %+v %s", code, says, errs)
	}
	if says := d.hookSoon(edit); says.Specific.Decision != "deny" {
		t.Errorf("an answer for once was used twice: %+v", says)
	}
	if says := d.hookSoon(d.preToolUse("WebSearch", map[string]any{"prompt": "x"})); says.Specific.Decision != "deny" ||
		!strings.Contains(says.Specific.Reason, "approval") {
		t.Errorf("a tool that nobody knows: %+v", says)
	}
	if got, _ := os.ReadFile(file); string(got) != "one\n" {
		t.Errorf("Palyra wrote the file: %q", got)
	}
	d.checkedOnly()
}

// checkedOnly: what is on record was judged and never granted, and both verifiers
// take the journal.
func (d *daemon) checkedOnly() {
	d.t.Helper()
	kinds := map[string]int{}
	for _, e := range d.entries() {
		kinds[e.Kind]++
		if e.Kind == "call.checked" && (e.Body["tier"] != "unsandboxed" || e.Body["plan_digest"] == "") {
			d.t.Errorf("the line reads %v", e.Body)
		}
	}
	if kinds["call.checked"] == 0 || kinds["call.granted"] > 0 || kinds["call.finished"] > 0 {
		d.t.Errorf("on record: %v", kinds)
	}
	d.verify()
	person := d.client(client.OperatorDoor)
	trust, err := person.ExportKeys(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	var export bytes.Buffer
	if err := person.ExportJournal(d.t.Context(), 1, 0, &export); err != nil {
		d.t.Fatal(err)
	}
	file, keys := filepath.Join(d.home, "export"), filepath.Join(d.home, "trust.json")
	for path, b := range map[string][]byte{file: export.Bytes(), keys: trust} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	if out, err := exec.Command(bin(d.t, "palyra-verify"), "--key", keys, file).CombinedOutput(); err != nil ||
		!bytes.Contains(export.Bytes(), []byte("call.checked")) {
		d.t.Errorf("the other verifier: %s %v", out, err)
	}
}

// A yes for the sandboxed write is none for the agent's own, and a person's no is a no.
func TestHookTakesNoAnswerOfTheSandbox(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	r := write(d.work, "b.txt", "x")
	r.Session, r.Surface = "both", palyra.SurfaceHook
	a, _, ch, err := question(t.Context(), agent, person, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeSession, 0)); err != nil {
		t.Fatal(err)
	}
	if end := <-ch; end.err != nil || end.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", end)
	}
	r.NoWait = true
	again := func() { // as it was when the answer was given, so that the plan is the same
		if err := os.Remove(filepath.Join(d.work, "b.txt")); err != nil {
			t.Fatal(err)
		}
	}
	again()
	if out, err := agent.Call(t.Context(), r, nil); err != nil || out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("the lease does not cover its own call: %+v %v", out, err)
	}
	again()
	if out, err := agent.Check(t.Context(), r, nil); err != nil || out.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Errorf("the lease of a call covers a check: %+v %v", out, err)
	}
	if _, err := d.decideNext(t.Context(), palyra.AnswerDeny); err != nil {
		t.Fatal(err)
	}
	if out, err := agent.Check(t.Context(), r, nil); err != nil || out.Outcome != palyra.OutcomeRefused ||
		out.ReasonCode != palyra.ReasonRecentlyDenied {
		t.Errorf("after a no: %+v %v", out, err)
	}
}

// What the built command makes of what it should never get: a no, each time.
func TestHookHostileInput(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	good := d.preToolUse("Bash", map[string]any{"command": "true"})
	for name, in := range map[string]string{
		"empty": "", "broken": good[:len(good)/2], "twice": good + good, "huge": strings.Replace(good, "true", strings.Repeat("x", 9<<20), 1),
		"deep": strings.Repeat(`{"a":`, 50_000), "event": strings.Replace(good, "PreToolUse", "Stop", 1),
		"a NUL":        strings.Replace(good, "true", `\u0000`, 1),
		"no directory": strings.Replace(good, d.work, "relative", 1),
	} {
		if _, code, errs := d.hook(in); code != 2 || errs == "" {
			t.Errorf("%s: %d %q", name, code, errs)
		}
	}
	d.stop()
	if _, code, errs := d.hook(d.preToolUse("Read", map[string]any{"file_path": "x"})); code != 2 || !strings.Contains(errs, "palyra up") {
		t.Errorf("no daemon: %d %q", code, errs)
	}
	check := d.palyra("check", "--json", "--", "ls")
	if out, _ := check.Output(); check.ProcessState.ExitCode() != 125 || len(out) > 0 {
		t.Errorf("check without a daemon: %d %q", check.ProcessState.ExitCode(), out)
	}
}

// oddCommands are shell commands that quoting has to survive.
func oddCommands(n int) []string {
	pieces := []string{
		"'", `"`, `\`, "$x", "`", "\n", " ", "#", "!", "é", "\u2028", "*", "~", "{a,b}", ";", "&", "|", "%s", "-n", "\t",
		"EOF", "$(echo no)", "=ls",
	}
	var out []string
	for range n {
		var text strings.Builder
		for range 1 + rand.IntN(12) {
			text.WriteString(pieces[rand.IntN(len(pieces))])
		}
		out = append(out, text.String())
	}
	return out
}

// The rewritten command, run by a real shell as an agent runs it, does in the
// sandbox exactly what the original says, and nothing outside of it.
func TestHookRewrittenCommandsRunInTheSandbox(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	ctx, done := context.WithCancel(t.Context())
	defer done()
	go func() { // whatever is asked is allowed: this is about what runs
		for ctx.Err() == nil {
			_, _ = d.decideNext(ctx, palyra.AnswerAllow)
		}
	}()
	commands := []string{
		"echo plain; exit 3", "cat <<'EOF'\nit's \"$HOME\" `x`\nEOF", "printf '%s\\n' \"a'b\" 'c\"d'; # end'", "false || echo \"$((1+2))\"",
	}
	for _, text := range oddCommands(12) {
		commands = append(commands, "printf '%s' '"+strings.ReplaceAll(text, "'", `'"'"'`)+"'")
	}
	for _, command := range commands {
		line := d.rewritten(command)
		want := runShell(t, d, command)
		if got := runShell(t, d, line); got != want {
			t.Errorf("%q\n rewritten %q\n gave %s\n want %s", command, line, got, want)
		}
	}
	secret := filepath.Join(d.home, "operator.key") // readable here, and nowhere in the sandbox
	if got := runShell(t, d, d.rewritten("test -r '"+secret+"' && echo ESCAPED; echo in")); got != `0 "in\n"` {
		t.Errorf("it does not run in the sandbox: %s", got)
	}
	if n := len(d.granted()); n != len(commands)+1 {
		t.Errorf("%d grants for %d commands", n, len(commands)+1)
	}
	d.verify()
}

// rewritten is what the hook makes of a shell command.
func (d *daemon) rewritten(command string) string {
	d.t.Helper()
	says, code, errs := d.hook(d.preToolUse("Bash", map[string]any{"command": command, "description": "x"}), "--shell", "/bin/sh")
	line, _ := says.Specific.Input["command"].(string)
	if code != 0 || says.Specific.Decision != "allow" || line == "" || says.Specific.Input["description"] != "x" {
		d.t.Fatalf("%q: %d %+v %s", command, code, says, errs)
	}
	return line
}

// runShell is what a line prints and how it ends, in a real shell.
func runShell(t *testing.T, d *daemon, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = d.work, append(os.Environ(), "PALYRA_HOME="+d.home, "HOME=/")
	out, _ := cmd.Output()
	return fmt.Sprintf("%d %q", cmd.ProcessState.ExitCode(), out)
}
