package e2e

import (
	"encoding/json"
	"testing"

	"palyra"
	"palyra/client"
)

// What the file tools changed is listed and undone by a person, redone, and undone by the agent itself, by its own tool.
func TestUndoOfFileTools(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.put("f", "old\n")
	before := treeOf(t, d.work)
	out := d.willing(client.CallRequest{
		Tool: palyra.ToolFileWrite, Workspace: d.work, Arguments: json.RawMessage(`{"path":"new/dir/f","content":"new\n","make_dirs":true}`),
	})
	after := treeOf(t, d.work)
	op := d.client(client.OperatorDoor)
	list, err := op.Changes(t.Context(), client.ChangeFilter{Call: out.CallID})
	if err != nil || len(list.Changes) != 3 || list.Undo != client.UndoKept {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := op.UndoCall(t.Context(), out.CallID); err != nil || treeOf(t, d.work) != before {
		t.Errorf("undone: %v\n%s\n%s", err, treeOf(t, d.work), d.log)
	}
	if _, err := op.RedoCall(t.Context(), out.CallID); err != nil || treeOf(t, d.work) != after {
		t.Errorf("redone: %v\n%s\n%s", err, treeOf(t, d.work), d.log)
	}
	args, _ := json.Marshal(map[string]any{"call_id": out.CallID})
	undone := d.willing(client.CallRequest{Tool: palyra.ToolUndo, Workspace: d.work, Arguments: args})
	if undone.Outcome != palyra.OutcomeFinished || undone.ExitCode != 0 || treeOf(t, d.work) != before {
		t.Errorf("by the agent: %+v\n%s", undone, treeOf(t, d.work))
	}
	d.verify()
	d.stop()
}
