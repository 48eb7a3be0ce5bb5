package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// What an agent writes by its own tools, past no more than a hook, is listed and can be put back: what it replaces is kept
// before the hook says yes. What the agent did otherwise than it said, or did not do, is left alone.
func TestUndoOfAnAgentsOwnTools(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(shipped...)
	d.inWorkspace()
	op := d.client(client.OperatorDoor)
	old, made := filepath.Join(d.work, "old.txt"), filepath.Join(d.work, "deep", "er", "new.txt")
	save(t, old, []byte("one\ntwo\n"))
	allowed := func(tool string, input map[string]any) palyra.CallID {
		t.Helper()
		if says, code, errs := d.hook(d.preToolUse(tool, input), "--wait", "2s"); code != 0 || says.Specific.Decision == "deny" {
			t.Fatalf("%d %+v %s", code, says, errs)
		}
		page, err := op.Calls(t.Context(), client.CallFilter{Limit: 1})
		if err != nil || len(page.Calls) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		return page.Calls[0].ID
	}
	edit := allowed("Edit", map[string]any{"file_path": old, "old_string": "two", "new_string": "three"})
	if would, err := op.CheckUndo(t.Context(), edit, false); err != nil || would.Problem == "" {
		t.Errorf("nothing was edited yet: %+v, %v", would, err)
	}
	save(t, old, []byte("one\nthree\n"))
	list, err := op.Changes(t.Context(), client.ChangeFilter{Call: edit})
	if err != nil || len(list.Changes) != 1 || list.Undo != client.UndoKept || list.Effects != palyra.EffectsForeseen {
		t.Errorf("%+v, %v", list, err)
	}
	if out := d.mustPalyra("changes", "--workspace", d.work); !strings.Contains(out, "foreseen") || !strings.Contains(out, "Said to change") {
		t.Errorf("%s", out)
	}
	if out := d.mustPalyra("undo", "--last", "--workspace", d.work); !strings.Contains(out, "old.txt") {
		t.Errorf("%s", out)
	}
	if b, _ := os.ReadFile(old); string(b) != "one\ntwo\n" {
		t.Errorf("%q", b)
	}

	write := allowed("Write", map[string]any{"file_path": made, "content": "x\n"})
	if err := os.MkdirAll(filepath.Dir(made), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(made, []byte("x\n"), 0o640); err != nil { // as its own umask wants it
		t.Fatal(err)
	}
	if _, err := op.UndoCall(t.Context(), write); err != nil || exists(filepath.Join(d.work, "deep")) {
		t.Errorf("%v; the directory is there: %v", err, exists(filepath.Join(d.work, "deep")))
	}

	envrc := map[string]any{"file_path": filepath.Join(d.work, ".envrc"), "content": "x\n"}
	if says, _, _ := d.hook(d.preToolUse("Write", envrc), "--wait", "100ms"); says.Specific.Decision != "deny" {
		t.Errorf("a name that a shell obeys: %+v", says)
	}
	other := allowed("Write", map[string]any{"file_path": old, "content": "said\n"})
	save(t, old, []byte("done\n"))
	if _, err := op.UndoCall(t.Context(), other); err == nil {
		t.Error("what it did is not what it said, and is taken back")
	}
	if b, _ := os.ReadFile(old); string(b) != "done\n" {
		t.Errorf("%q", b)
	}
}
