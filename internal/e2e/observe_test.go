//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/observe"
)

// observedCalls are calls of an agent's own tools as its hook gets them: those that would have run, be asked about, be refused.
func (d *daemon) observedCalls(file string) (read, push, look, outside, key, unknown string) {
	return d.preToolUse("Read", map[string]any{"file_path": file}),
		d.preToolUse("Bash", map[string]any{"command": "git push --force origin main"}),
		d.preToolUse("Bash", map[string]any{"command": "ls -la"}),
		d.preToolUse("Read", map[string]any{"file_path": "/etc/shadow"}),
		d.preToolUse("Read", map[string]any{"file_path": filepath.Join(d.home, "operator.key")}),
		d.preToolUse("Frobnicate", map[string]any{"x": 1})
}

// While calls are observed the hook holds nothing and asks nobody, what would have become of each is on record and in the
// report, and what Palyra runs itself is held as ever. Once they are held again, and where nobody signed, the same hook
// decides as usual; without a daemon it blocks.
func TestCallsAreObserved(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	file := filepath.Join(d.work, "a.txt")
	save(t, file, []byte("one\n"))
	flags := []string{"--observe", "--wait", "2s"}
	read, push, look, outside, key, unknown := d.observedCalls(file)
	heldAsEver := func(when string) {
		t.Helper()
		if says, code, _ := d.hook(outside, flags...); code != 0 || says.Specific.Decision != "deny" {
			t.Errorf("%s, and yet: %d %+v", when, code, says)
		}
		if says, _, _ := d.hook(push, flags...); says.Specific.Input == nil {
			t.Errorf("%s, and a command is not taken into the sandbox: %+v", when, says)
		}
	}
	heldAsEver("nobody signed")
	d.mustPalyra("observe", "start", "--for", "1h")
	before := d.openQuestions()
	all := []string{push, look, outside, key, unknown, read}
	for _, in := range all {
		if says, code, errs := d.hook(in, flags...); code != 0 || says.Specific.Decision != "" || says.Specific.Input != nil {
			t.Errorf("%s: held: %d %+v %s", in, code, says, errs)
		}
	}
	if n := d.openQuestions(); n != before {
		t.Errorf("%d questions are open, and %d were", n, before)
	}
	if says, code, _ := d.hook(outside, "--wait", "2s"); code != 0 || says.Specific.Decision != "deny" {
		t.Errorf("a hook that does not observe: %d %+v", code, says)
	}
	if out := d.mustPalyra("status"); !strings.Contains(out, "observed and not held") {
		t.Errorf("status does not say it:\n%s", out)
	}
	d.ownToolsAreHeld()
	d.reported(int64(len(all)))
	d.saidAtTheEnd(flags)

	d.kill()
	for _, in := range []string{outside, read, unknown} { // what nobody could put on record does not pass
		if _, code, errs := d.hook(in, flags...); code != 2 || !strings.Contains(errs, "palyra up") {
			t.Errorf("without a daemon: %d %s", code, errs)
		}
	}
	d.mustStart()
	if says, code, _ := d.hook(push, flags...); code != 0 || says.Specific.Input != nil { // the signature outlives the daemon
		t.Errorf("after a restart: %+v", says)
	}
	d.mustPalyra("observe", "enforce")
	heldAsEver("held again")
	d.observedEvidence()
}

// ownToolsAreHeld: calls of Palyra's own tools are held, whatever their callers say of them.
func (d *daemon) ownToolsAreHeld() {
	d.t.Helper()
	c := d.client(client.AgentDoor)
	out, err := c.Call(d.t.Context(), client.CallRequest{
		Tool: palyra.ToolFileRead, Arguments: json.RawMessage(`{"path":"../x"}`), Workspace: d.work,
	}, nil)
	if err != nil || out.Outcome != palyra.OutcomeRefused {
		d.t.Errorf("a call of Palyra's own tools: %+v, %v", out, err)
	}
	made := filepath.Join(d.work, "made")
	for _, rewritten := range []bool{false, true} {
		for _, r := range []client.CallRequest{write(d.work, "made", "x"), d.shell("touch made")} {
			out, err := c.Observe(d.t.Context(), r, rewritten)
			if err != nil || out.Outcome != palyra.OutcomeObserved || out.Attestation != nil || out.GrantID != "" || exists(made) {
				d.t.Errorf("said to be observed: %+v, %v; made: %v", out, err, exists(made))
			}
		}
	}
}

// reported: the report has what would have become of calls, and what they were about.
func (d *daemon) reported(hooked int64) {
	d.t.Helper()
	var r observe.Report
	if err := json.Unmarshal([]byte(d.mustPalyra("observe", "report", "--json")), &r); err != nil {
		d.t.Fatal(err)
	}
	if r.Calls != hooked+4 || r.Allowed < 2 || r.Asked < 2 || r.Refused < 1 || r.Allowed+r.Covered+r.Asked+r.Refused != r.Calls {
		d.t.Errorf("the report: %+v", r)
	}
	if len(r.Outside) == 0 || len(r.Secrets) == 0 || !strings.Contains(r.Secrets[0].Name, "/etc/shadow") {
		d.t.Errorf("what was outside, and secrets: %+v", r)
	}
	for _, k := range r.Kinds {
		if strings.Contains(k.Example, "ls -la") {
			d.t.Errorf("a command that runs unasked in the sandbox is said to be held: %+v", k)
		}
	}
	text := d.mustPalyra("observe", "report")
	for _, words := range []string{"would have been asked about", "git push --force", "/etc/shadow", "palyra observe enforce"} {
		if !strings.Contains(text, words) {
			d.t.Errorf("the report does not say %q:\n%s", words, text)
		}
	}
}

// saidAtTheEnd: whoever observed a session is told in one line what it did.
func (d *daemon) saidAtTheEnd(flags []string) {
	d.t.Helper()
	over := strings.Replace(d.preToolUse("", map[string]any{}), "PreToolUse", "SessionEnd", 1)
	_, code, errs := d.hook(over, flags...)
	if code != 2 || !strings.Contains(errs, "Palyra observed 6 calls of this session and held none") || strings.Count(errs, "\n") != 1 {
		d.t.Errorf("the end of a session: %d %q", code, errs)
	}
	other := strings.Replace(over, "4c1f6f0e", "ffffffff", 1)
	if _, code, errs := d.hook(other, flags...); code != 0 || errs != "" {
		d.t.Errorf("the end of a session without calls: %d %q", code, errs)
	}
}

// observedEvidence: both verifiers take the journal, the other one says how many calls were not held, and an outcome that was
// observed passes for no evidence.
func (d *daemon) observedEvidence() {
	d.t.Helper()
	d.mustPalyra("journal", "verify")
	person := d.client(client.OperatorDoor)
	trust, err := person.ExportKeys(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	var export bytes.Buffer
	if err := person.ExportJournal(d.t.Context(), 1, 0, &export); err != nil {
		d.t.Fatal(err)
	}
	page, err := person.Calls(d.t.Context(), client.CallFilter{State: palyra.Observed, Limit: 1})
	if err != nil || len(page.Calls) != 1 {
		d.t.Fatal(err)
	}
	outcome, _ := json.Marshal(page.Calls[0].Outcome)
	file, one, keys := filepath.Join(d.home, "export"), filepath.Join(d.home, "outcome.json"), filepath.Join(d.home, "trust.json")
	for path, b := range map[string][]byte{file: export.Bytes(), one: outcome, keys: trust} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	verifier := bin(d.t, "palyra-verify")
	out, err := exec.Command(verifier, "--key", keys, file).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("NOT held")) {
		d.t.Errorf("the export: %v %s", err, out)
	}
	out, err = exec.Command(verifier, "--key", keys, one).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("observed and not held")) {
		d.t.Errorf("an observed outcome as evidence: %v %s", err, out)
	}
	if out, err := d.palyra("attest", "verify", one, "--key", keys).CombinedOutput(); err == nil {
		d.t.Errorf("an observed outcome as evidence: %s", out)
	}
}

// Nobody but an operator has calls observed, by a signature for that and for no longer than 7 days.
func TestWhoSignsForObservation(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	_, token, err := d.client(client.OperatorDoor).AddAgent(t.Context(), "other", "")
	if err != nil {
		t.Fatal(err)
	}
	off := func(who string) {
		t.Helper()
		if o, err := d.client(client.OperatorDoor).Observation(t.Context()); err != nil || o.On {
			t.Errorf("%s: %+v, %v", who, o, err)
		}
	}
	forged := newDaemon(t) // whose owner's key this daemon does not know
	forged.mustStart()
	for who, cfg := range map[string]client.Config{
		"an agent":         {Home: d.home, Door: client.AgentDoor},
		"without a key":    {Home: d.home, Door: client.OperatorDoor},
		"another's key":    {Home: d.home, Door: client.OperatorDoor, Signer: forged.signer()},
		"an agent's token": {Home: d.home, Door: client.OperatorDoor, AgentToken: token, Signer: d.signer()},
	} {
		c, err := client.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.SetObservation(t.Context(), time.Hour); err == nil {
			t.Errorf("%s has calls observed", who)
		}
		_ = c.Close()
		off(who)
	}
	for _, args := range [][]string{{"--for", "169h"}, {"--for", "-1h"}} {
		if out, err := d.palyra(append([]string{"observe", "start"}, args...)...).CombinedOutput(); err == nil {
			t.Errorf("%q: %s", args, out)
		}
		off(strings.Join(args, " "))
	}
}

// signer is the owner's key.
func (d *daemon) signer() client.Signer {
	d.t.Helper()
	s, err := client.LoadSigner(filepath.Join(d.home, "operator.key"), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// What was signed for is in the journal; a line that was made longer past the daemon is found.
func TestObservationIsAudited(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	d.mustPalyra("observe", "start", "--for", "1h")
	if _, code, errs := d.hook(d.preToolUse("Read", map[string]any{"file_path": "/etc/hostname"}), "--observe"); code != 0 {
		t.Fatal(errs)
	}
	var said palyra.Entry
	for _, e := range d.entries() {
		if e.Kind == "observation.changed" {
			said = e
		}
	}
	if said.Body["by"] == "" || said.Body["signature"] == nil {
		t.Fatalf("the line reads %v", said.Body)
	}
	c := d.copied()
	if err := c.verify(); err != nil {
		t.Fatal(err)
	}
	c.exec("DROP TRIGGER journal_entries_update")
	if n := c.exec(`UPDATE journal_entries SET entry = replace(entry, ?, ?) WHERE seq = ?`, said.Body["until"], "2099-01-01T00:00:00Z", said.Seq); n != 1 {
		t.Fatalf("%d lines changed", n)
	}
	if err := c.verify(); err == nil {
		t.Error("a line that was made longer is not found")
	}
}

// openQuestions counts the questions that nobody has answered.
func (d *daemon) openQuestions() int {
	d.t.Helper()
	page, err := d.client(client.OperatorDoor).Approvals(d.t.Context(), client.ApprovalFilter{Pending: true})
	if err != nil {
		d.t.Fatal(err)
	}
	return len(page.Approvals)
}

// When calls are held again the person is told which agents are: one may have changed its own settings meanwhile.
func TestEnforceSaysWhichHooksAreThere(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	home, programs := t.TempDir(), t.TempDir()
	save(t, filepath.Join(programs, "claude"), []byte("#!/bin/sh\necho 2.1.325\n"))
	if err := os.Chmod(filepath.Join(programs, "claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.env = append(d.env, "HOME="+home, "PATH="+programs+":/usr/bin:/bin")
	settings := filepath.Join(home, ".claude", "settings.json")
	for _, c := range []struct {
		name   string
		before func()
		want   string
	}{
		{"none", func() {}, "Claude Code: NOT HELD: no hook is in " + settings + "; palyra hook install claude-code"},
		{"installed", func() { d.mustPalyra("hook", "install", "claude-code", "--observe") }, "Claude Code: the hook is in " + settings},
		{"off", func() { save(t, settings, []byte(`{"disableAllHooks":true}`)) }, "NOT HELD: hooks are switched off by"},
		{"gone", func() { save(t, settings, []byte(`{}`)) }, "NOT HELD: no hook is in"},
	} {
		c.before()
		started := d.mustPalyra("observe", "start", "--for", "1h")
		if none := strings.Contains(started, "no hook in your own settings asks to be observed"); none != (c.name != "installed") {
			t.Errorf("%s: %s", c.name, started)
		}
		if out := d.mustPalyra("observe", "enforce"); !strings.Contains(out, c.want) {
			t.Errorf("%s:\n%s", c.name, out)
		}
	}
	d.mustPalyra("hook", "install", "claude-code")
	if out := d.mustPalyra("observe", "start", "--for", "1h"); !strings.Contains(out, "Claude Code: held all the same") {
		t.Error(out)
	}
	save(t, settings, []byte(`{}`))
	if out := d.mustPalyra("observe", "enforce", "--json"); !strings.Contains(out, `"on":false`) || !strings.Contains(out, `"hook":"none"`) {
		t.Error(out)
	}
}
