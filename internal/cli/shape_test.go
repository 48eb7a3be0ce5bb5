//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/stagetest"
)

// shapeOf lists every field of a JSON value with its type. Entries of a list
// count as one; free-form is a field whose own fields are not ours to promise.
func shapeOf(v any, path string, freeForm []string, out map[string]bool) {
	if slices.Contains(freeForm, path) {
		out[path+" …"] = true
		return
	}
	switch x := v.(type) {
	case map[string]any:
		out[path+" object"] = true
		for key, value := range x {
			shapeOf(value, strings.TrimPrefix(path+"."+key, "."), freeForm, out)
		}
	case []any:
		out[path+" list"] = true
		for _, value := range x {
			shapeOf(value, path+"[]", freeForm, out)
		}
	case string:
		kind := " string"
		if _, err := time.Parse(time.RFC3339Nano, x); err == nil {
			kind = " time"
		}
		out[path+kind] = true
	case json.Number:
		out[path+" number"] = true
	case bool:
		out[path+" bool"] = true
	case nil:
		out[path+" null"] = true
	}
}

// checkTimes fails on a time that is not in UTC.
func checkTimes(t *testing.T, args, line string) {
	t.Helper()
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == '"' }) {
		if at, err := time.Parse(time.RFC3339Nano, word); err == nil && !strings.HasSuffix(word, "Z") {
			t.Errorf("%s: %s (%v) is not UTC", args, word, at)
		}
	}
}

// Every object that commands print, field by field: a contract. A change here is
// a change for everybody who reads them.
func TestShapesOfEveryCommand(t *testing.T) {
	h := openHouse(t)
	h.palyra("agent", "add", "helper")
	h.palyra("tools", "call", "palyra.echo", "--input", `{"text":"x"}`)
	call := h.stream("tools", "call", "palyra.fs.write", "--input", aWrite, "--json")
	id, digest := h.pendingID()
	decided := h.palyra("approvals", "decide", id, "allow", "--scope", "session", "--reason", "fine", "--digest", digest, "--json")
	outcome := call.until(`"outcome":"finished"`)
	_ = call.cmd.Wait()
	grant, callID := digOne(t, decided, "decision.grant_id"), digOne(t, outcome, "call_id")
	session := digOne(t, outcome, "session_id")
	h.palyra("workspace", "add", h.work, "--name", "w")
	tape := h.runTape()
	run := digOne(t, strings.SplitN(tape, "\n", 2)[0], "run_id")
	refused, err := h.command("exec", "--json", "--", "no-such-program").Output()
	if err == nil {
		t.Errorf("it ran: %s", refused)
	}

	var got bytes.Buffer
	bundle := filepath.Join(t.TempDir(), "policies")
	for _, c := range []struct{ name, args string }{
		{"status", "status"},
		{"version", "version"},
		{"tools list", "tools list"},
		{"tools show", "tools show palyra.fs.write"},
		{"approvals list", "approvals list"},
		{"approvals show", "approvals show " + id},
		{"grants list", "grants list"},
		{"grants show", "grants show " + grant},
		{"sessions list", "sessions list"},
		{"sessions show", "sessions show " + session},
		{"calls list", "calls list"},
		{"calls show", "calls show " + callID},
		{"runs list", "runs list"},
		{"runs show", "runs show " + run},
		{"workspace list", "workspace list"},
		{"agent list", "agent list"},
		{"operator list", "operator list"},
		{"operator show", "operator show"},
		{"keys list", "keys list"},
		{"journal tail", "journal tail --kind call.granted"},
		{"journal verify", "journal verify"},
		{"check", "check --tool palyra.echo --input {\"text\":\"x\"}"},
		{"mcp install", "mcp install codex --print"},
		{"mcp uninstall", "mcp uninstall codex --workspace " + h.work},
		{"hook install", "hook install claude-code --print"},
		{"hook uninstall", "hook uninstall claude-code --workspace " + h.work},
		{"attest show", "attest show " + callID},
		{"policy show", "policy show"},
		{"policy why", "policy why " + callID},
		{"policy snapshot", "policy snapshot"},
		{"policy init", "policy init " + bundle},
		{"policy check", "policy check " + bundle},
		{"policy apply", "policy apply " + bundle},
		{"policy history", "policy history"},
		{"policy rollback", "policy rollback " + digOne(t, h.palyra("status", "--json"), "bundle_digest")},
		{"policy suggest", "policy suggest --out " + bundle + "-suggested"},
		{"policy replay", "policy replay --candidate " + bundle + "-suggested"},
		{"config check", "config check"},
		{"config show", "config show"},
		{"config path", "config path"},
		{"access user add", "access user add user:bob --role viewer --workspace " + h.work},
		{"access user change", "access user change user:bob --role approver"},
		{"access user list", "access user list"},
		{"access token add", "access token add dash --for user:bob --scope status.view --ttl 1h"},
		{"access token list", "access token list"},
		{"access roles", "access roles"},
		{"access whoami", "access whoami"},
		{"access user remove", "access user remove user:bob"},
	} {
		writeShape(t, &got, c.name, h.palyra(append(strings.Fields(c.args), "--json")...))
	}
	writeShape(t, &got, "approvals decide", decided)
	writeShape(t, &got, "tools call", outcome)
	writeShape(t, &got, "exec", string(refused))
	writeShape(t, &got, "run", tape)
	questiontest.Golden(t, "shapes.txt", got.String())
}

func writeShape(t *testing.T, w *bytes.Buffer, name, text string) {
	t.Helper()
	shape := map[string]bool{}
	for line := range strings.Lines(text) {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: %v in %s", name, err, line)
		}
		shapeOf(v, "", freeForm(name), shape)
		checkTimes(t, name, line)
	}
	fmt.Fprintf(w, "%s\n", name)
	for _, field := range slices.Sorted(maps.Keys(shape)) {
		if field != " object" {
			fmt.Fprintf(w, "  %s\n", field)
		}
	}
}

// freeForm are the fields that hold what tools, signers and features put there.
func freeForm(name string) []string {
	free := []string{"features", "output", "body", "input_schema", "tools[].input_schema", "tool_proposed.arguments"}
	for _, base := range []string{"", "approvals[].", "grants[].", "leases[].", "calls[]."} {
		free = append(free, base+"plan.arguments", base+"proposal.arguments", base+"tool.input_schema", base+"votes[].signature",
			base+"decision.votes[].signature",
			base+"outcome.output", base+"predicate.decision.votes[].signature")
	}
	if name == "policy suggest" {
		free = append(free, "files")
	}
	if name == "policy snapshot" {
		free = append(free, "process_runner", "wasm_runtime")
	}
	return free
}

func digOne(t *testing.T, text, path string) string {
	t.Helper()
	v, err := stagetest.Dig([]byte(text), path)
	if err != nil || v == "" {
		t.Fatalf("%s: %q %v", path, v, err)
	}
	return v
}

// runTape plays a run that has everything a tape can have without a sandbox.
func (h *house) runTape() string {
	h.t.Helper()
	script := filepath.Join(h.work, "steps.yaml")
	stagetest.Fatal(h.t, os.WriteFile(script, []byte("title: steps\nturns:\n  - say: hello\n    calls:\n"+
		"      - {tool: palyra.echo, with: {text: x}}\n      - {tool: palyra.fs.read, with: {path: ../x}}\n      - {tool: "+
		"palyra.fs.write, with: {path: b.txt, content: x}}\n"), 0o600))
	run := h.stream("run", "--script", script, "--json")
	var b strings.Builder
	for run.lines.Scan() {
		line := run.lines.Text()
		b.WriteString(line + "\n")
		if id, err := stagetest.Dig([]byte(line), "approval_requested.approval_id"); err == nil {
			h.palyra("approvals", "decide", id, "allow", "--scope", "session", "--reason", "fine", "--digest",
				digOne(h.t, line, "approval_requested.plan_digest"))
		}
	}
	stagetest.Fatal(h.t, run.cmd.Wait())
	return b.String()
}
