//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// answerWith answers the open question by the command, with a word of its own.
func (d *daemon) answerWith(person *client.Client, word string) palyra.Approval {
	d.t.Helper()
	a := d.pending(person)
	if out, err := d.palyra("approvals", "decide", string(a.ID), word, "--digest", string(a.PlanDigest)).CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v\n%s", word, err, out)
	}
	return a
}

// hookSoon asks the hook without waiting long for a person, and again, for longer, where
// the machine was too busy to ask at all.
func (d *daemon) hookSoon(stdin string) hookSays {
	d.t.Helper()
	var errs string
	for wait := time.Second; wait < time.Minute; wait *= 2 {
		says, code, text := d.hook(stdin, "--wait", wait.String())
		if code == 0 {
			return says
		}
		errs = text
	}
	d.t.Fatalf("%s: %s", stdin, errs)
	return hookSays{}
}

// Going on editing a workspace is one answer: the next files are written unasked, and
// whatever the answer does not speak of is asked about as before.
func TestGoOnEditing(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	d.inWorkspace()
	elsewhere := t.TempDir()
	t.Run("mcp", func(t *testing.T) { d.editsOverMCP(t, elsewhere) })
	t.Run("hook", func(t *testing.T) { d.editsByHook(t) })
	t.Run("reads", func(t *testing.T) { d.readsOutside(t, elsewhere) })
	d.verify()
}

func (d *daemon) editsOverMCP(t *testing.T, elsewhere string) {
	person := d.client(client.OperatorDoor)
	g := startGo(t, d, "--pending-after", "1s")
	ch := g.write(t.Context(), "top.txt")
	a := d.answerWith(person, "allow-edits")
	f := g.outcome(ch)
	for f["outcome"] == "pending" {
		f = g.outcome(g.call(t.Context(), "palyra_call_wait", map[string]any{"call_id": f["call_id"]}))
	}
	if f["outcome"] != "finished" {
		t.Errorf("the call that was asked about: %v", f)
	}
	if !strings.Contains(a.Prompt.Covers, "workspace both cover any edit of files in "+d.work) {
		t.Errorf("the question says %q", a.Prompt.Covers)
	}
	calls := []map[string]any{
		{"palyra_fs_write": map[string]any{"path": "one.txt", "content": "1\n"}},
		{"palyra_fs_write": map[string]any{"path": "a/b/two.txt", "content": "2\n", "make_dirs": true}},
		{"palyra_fs_edit": map[string]any{"path": "one.txt", "old_string": "1", "new_string": "one"}},
		{"palyra_fs_apply_patch": map[string]any{"patch": "--- /dev/null\n+++ b/three.txt\n@@ -0,0 +1 @@\n+3\n"}},
		{"palyra_fs_write": map[string]any{"path": "Makefile", "content": "all:\n"}},
		{"palyra_fs_write": map[string]any{"path": ".gitignore", "content": "x\n"}},
	}
	for _, c := range calls {
		for tool, args := range c {
			if f := g.outcome(g.call(t.Context(), tool, args.(map[string]any))); f["outcome"] != "finished" {
				t.Errorf("%v: %v", c, f)
			}
		}
	}
	asks := func(g *goClient, tool string, args map[string]any) {
		t.Helper()
		if f := g.outcome(g.call(t.Context(), tool, args)); f["outcome"] != "pending" && f["reason_code"] != string(palyra.ReasonPathOutside) {
			t.Errorf("%s %v: %v", tool, args, f)
		}
	}
	asks(g, "palyra_fs_write", map[string]any{"path": ".envrc", "content": "x"})
	asks(g, "palyra_fs_write", map[string]any{"path": "a/.git/hooks/x", "content": "x", "make_dirs": true})
	asks(g, "palyra_fs_write", map[string]any{"path": elsewhere + "/x", "content": "x"})
	asks(g, "palyra_fs_apply_patch", map[string]any{"patch": "--- a/three.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-3\n"})
	asks(startGo(t, d, "--pending-after", "1s"), "palyra_fs_write", map[string]any{"path": "four.txt", "content": "4"}) // another session
	for _, name := range []string{".envrc", "four.txt"} {
		if _, err := os.Lstat(filepath.Join(d.work, name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	r := write(d.work, "evidence.txt", "x") // what a lease for several tools covered is proved by both verifiers
	r.Session = "evidence"
	agent := d.client(client.AgentDoor)
	q, _, first, err := question(t.Context(), agent, person, r)
	if err != nil {
		t.Fatal(err)
	}
	with := allow(q, palyra.ScopeSession, 0)
	with.Widen = palyra.WidenWorkspace
	if _, err := person.Decide(t.Context(), with); err != nil {
		t.Fatal(err)
	}
	<-first
	args, _ := json.Marshal(map[string]any{"path": "evidence.txt", "old_string": "x", "new_string": "y"})
	r.Tool, r.Arguments, r.NoWait = "palyra.fs.edit", args, true
	out, err := agent.Call(t.Context(), r, nil)
	if err != nil || out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v %v", out, err)
	}
	checkEvidence(t, d, person, out)
}

func (d *daemon) editsByHook(t *testing.T) {
	person := d.client(client.OperatorDoor)
	for page, err := person.Approvals(t.Context(), client.ApprovalFilter{Pending: true}); err == nil &&
		len(page.Approvals) > 0; page, err = person.Approvals(t.Context(), client.ApprovalFilter{Pending: true}) {
		if _, err := d.decideNext(t.Context(), palyra.AnswerDeny); err != nil {
			t.Fatal(err)
		}
	}
	save(t, filepath.Join(d.work, "h.txt"), []byte("one\n"))
	at := func(name string) string { return filepath.Join(d.work, name) }
	says := func(tool string, input map[string]any) string {
		t.Helper()
		s := d.hookSoon(d.preToolUse(tool, input))
		return s.Specific.Decision + " " + s.Specific.Reason
	}
	first := map[string]any{"file_path": at("new.txt"), "content": "x"}
	if got := says("Write", first); !strings.HasPrefix(got, "deny") {
		t.Fatal(got)
	}
	a := d.answerWith(person, "allow-edits")
	if a.Prompt.Risk.Level != palyra.RiskMedium || a.Plan.Tier != palyra.TierUnsandboxed {
		t.Errorf("the question is %+v in %s", a.Prompt.Risk, a.Plan.Tier)
	}
	save(t, at("n.ipynb"), []byte(`{"cells":[]}`))
	for _, c := range []struct {
		tool  string
		input map[string]any
	}{
		{"Write", first},
		{"Write", map[string]any{"file_path": at("deep/er/x.txt"), "content": "x"}},
		{"Edit", map[string]any{"file_path": at("h.txt"), "old_string": "one", "new_string": "two"}},
		{"MultiEdit", map[string]any{"file_path": at("h.txt"), "edits": []any{map[string]any{"old_string": "one", "new_string": "2"}}}},
		{"NotebookEdit", map[string]any{"notebook_path": at("n.ipynb"), "new_source": "print(1)", "edit_mode": "insert"}},
		{"Write", map[string]any{"file_path": at("other.go"), "content": "package x\n"}},
	} {
		if got := says(c.tool, c.input); !strings.HasPrefix(got, "allow") {
			t.Errorf("%s %v: %s", c.tool, c.input, got)
		}
	}
	if err := os.Symlink("/etc", at("away")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".envrc", "/etc/x.txt", "../x.txt", "away/x.txt"} {
		file := name
		if !filepath.IsAbs(file) {
			file = d.work + "/" + file
		}
		for tool, input := range map[string]map[string]any{
			"Write":        {"file_path": file, "content": fmt.Sprint("for ", file)},
			"NotebookEdit": {"notebook_path": file, "new_source": "x"},
		} {
			if got := says(tool, input); !strings.HasPrefix(got, "deny") {
				t.Errorf("%s %s: %s", tool, file, got)
			}
		}
	}
	other := strings.Replace(d.preToolUse("Write", map[string]any{"file_path": at("o.txt"), "content": "x"}), "4c1f6f0e", "5c1f6f0e", 1)
	if s := d.hookSoon(other); s.Specific.Decision != "deny" {
		t.Errorf("another session: %+v", s)
	}
}

// readsOutside: a directory outside is read by one answer at a moderate risk; a known
// place of secrets stays what it is.
func (d *daemon) readsOutside(t *testing.T, dir string) {
	person := d.client(client.OperatorDoor)
	for _, name := range []string{"a.txt", "b.txt", "server.key", ".hidden"} {
		save(t, filepath.Join(dir, name), []byte("x\n"))
	}
	ask := func(tool, field, path string) string {
		t.Helper()
		return d.hookSoon(d.preToolUse(tool, map[string]any{field: path})).Specific.Decision
	}
	if got := ask("Read", "file_path", dir+"/a.txt"); got != "deny" {
		t.Fatal(got)
	}
	var a palyra.Approval
	for a.Plan.Tool != "hook.read" {
		a = d.pending(person)
		if a.Plan.Tool != "hook.read" {
			if _, err := person.Decide(t.Context(), client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a.Prompt.Risk.Level != palyra.RiskMedium {
		t.Errorf("a plain read is %+v", a.Prompt.Risk)
	}
	d.answerWith(person, "allow-reads")
	for path, want := range map[string]string{"/a.txt": "allow", "/b.txt": "allow", "/server.key": "deny", "/.hidden": "deny"} {
		if got := ask("Read", "file_path", dir+path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := ask("LS", "path", dir); got != "allow" {
		t.Errorf("LS: %s", got)
	}
	page, err := person.Approvals(t.Context(), client.ApprovalFilter{Pending: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range page.Approvals {
		if strings.Contains(q.Prompt.Summary, "server.key") && q.Prompt.Risk.Level != palyra.RiskHigh {
			t.Errorf("a key is %+v", q.Prompt.Risk)
		}
	}
}
