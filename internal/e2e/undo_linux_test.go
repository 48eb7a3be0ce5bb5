package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if out.Effects != palyra.EffectsKept || out.Changes == nil || out.Changes.Created != 3 || out.Changes.List == "" {
		t.Errorf("the outcome says %s, %+v", out.Effects, out.Changes)
	}
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
	if undone.Effects != palyra.EffectsKept || undone.Changes == nil || undone.Changes.Removed != 3 || undone.Changes.List == "" {
		t.Errorf("the outcome of the undo says %s, %+v", undone.Effects, undone.Changes)
	}
	list, err = op.Changes(t.Context(), client.ChangeFilter{Call: undone.CallID})
	if err != nil || len(list.Changes) != 3 || list.Undo == client.UndoKept {
		t.Errorf("%+v, %v", list, err)
	}
	if last, err := op.Changes(t.Context(), client.ChangeFilter{Workspace: d.work}); err != nil || last.Lasting != "" {
		t.Errorf("%s stays: %s, %v", last.Lasting, last.LastingWhy, err)
	}
	d.verify()
	d.stop()
}

// changed runs the script that changes everything, and returns its call.
func (d *daemon) changed() palyra.CallID {
	d.t.Helper()
	out := d.willing(d.inRoom(nil, "sh", "s.sh"))
	if out.Effects != palyra.EffectsKept {
		d.t.Fatalf("nothing is staged here: %+v", out)
	}
	return out.CallID
}

// What a run changed is listed and shown, undone, redone, and not undone where somebody changed it since.
func TestUndo(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.furnishes()
	before := treeOf(t, d.work)
	call := d.changed()
	after := treeOf(t, d.work)
	op := d.client(client.OperatorDoor)

	list, err := op.Changes(t.Context(), client.ChangeFilter{Workspace: d.work})
	if err != nil || list.Call != call || list.Undo != client.UndoKept || int64(len(list.Changes)) != list.Counts.Total() {
		t.Errorf("%+v, %v", list, err)
	}
	own, err := d.client(client.AgentDoor).Changes(t.Context(), client.ChangeFilter{Call: call})
	if err != nil || len(own.Changes) != len(list.Changes) {
		t.Errorf("the agent's own: %+v, %v", own, err)
	}
	if diff, err := op.ChangesDiff(t.Context(), call, "f"); err != nil || !strings.Contains(diff.Diff, " old\n+run\n") {
		t.Errorf("%+v, %v", diff, err)
	}
	for round := range 2 {
		if _, err := op.UndoCall(t.Context(), call); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, d.log)
		}
		if got := treeOf(t, d.work); got != before {
			t.Errorf("round %d, undone:\n%s\nwant\n%s", round, got, before)
		}
		if _, err := op.RedoCall(t.Context(), call); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, d.log)
		}
		if got := treeOf(t, d.work); got != after {
			t.Errorf("round %d, redone:\n%s\nwant\n%s", round, got, after)
		}
	}
	d.lastThatWroteDirectly(call)
	d.put("new/mine", "my own work")
	later := treeOf(t, d.work)
	would, err := op.CheckUndo(t.Context(), call, false)
	if err != nil || would.Problem == "" || len(would.Differ) != 1 || would.Differ[0] != "new" {
		t.Errorf("%+v, %v", would, err)
	}
	if _, err := op.UndoCall(t.Context(), call); palyra.CodeOf(err) != palyra.Conflict || treeOf(t, d.work) != later {
		t.Errorf("somebody's work is in it: %v", err)
	}
	if err := op.ForgetUndo(t.Context(), call); err != nil {
		t.Error(err)
	}
	if all, err := op.UndoEntries(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	d.verify()
	d.stop()
}

// lastThatWroteDirectly has a run write to the workspace directly: palyra undo --last says that it cannot be undone, and
// takes back no older one in its place.
func (d *daemon) lastThatWroteDirectly(older palyra.CallID) {
	d.t.Helper()
	out := d.willing(d.inRoom(map[string]any{"live": true}, "sh", "-c", "echo direct > direct"))
	before := treeOf(d.t, d.work)
	text, err := d.palyra("undo", "--last", "--workspace", d.work).CombinedOutput()
	for _, want := range []string{string(out.CallID), "directly", "'palyra undo " + string(older) + "'"} {
		if err == nil || !strings.Contains(string(text), want) {
			d.t.Errorf("no %q in\n%s%v", want, text, err)
		}
	}
	if treeOf(d.t, d.work) != before {
		d.t.Error("something was undone")
	}
	text, err = d.palyra("changes", "--workspace", d.work).CombinedOutput()
	if want := "Not the last: call " + string(out.CallID) + " came later"; err != nil || !strings.Contains(string(text), want) {
		d.t.Errorf("no %q in\n%s%v", want, text, err)
	}
	if err := os.Remove(filepath.Join(d.work, "direct")); err != nil {
		d.t.Error(err)
	}
}

// A daemon that is killed in an undo, or in a redo, at any step: the tree is the old or the new one after the next start,
// never a mixture, and what can be done next is what it looks like.
func TestKilledWhileUndoing(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.furnishes()
	before := treeOf(t, d.work)
	call := d.changed()
	after := treeOf(t, d.work)
	d.stop()
	for _, c := range []struct {
		point string
		lost  bool // nothing has begun then
	}{
		{point: "call.reverted/lost", lost: true},
		{point: "call.reverted/kept", lost: true},
		{point: "stage.listed/lost", lost: true},
		{point: "stage.listed/kept"},
		{point: "stage.step/lost:3"},
		{point: "stage.step/kept:5"},
		{point: "stage.exchanged/kept"},
		{point: "stage.aside/kept"},
		{point: "stage.archived/lost"},
		{point: "stage.archived/kept"},
		{point: "call.reverted/kept:2"},
	} {
		t.Run(strings.ReplaceAll(c.point, "/", "_"), func(t *testing.T) {
			for _, redo := range []bool{false, true} {
				d.mustStart(append(unlimited, "PALYRA_FAULT="+c.point)...)
				revert, want, state := d.client(client.OperatorDoor).UndoCall, before, client.UndoUndone
				if redo {
					revert, want, state = d.client(client.OperatorDoor).RedoCall, after, client.UndoKept
				}
				if _, err := revert(t.Context(), call); err == nil {
					t.Fatal("it was not killed")
				}
				<-d.done
				d.mustStart(unlimited...)
				op := d.client(client.OperatorDoor)
				if c.lost {
					if list, err := op.Changes(t.Context(), client.ChangeFilter{Call: call}); err != nil ||
						list.Undo == state || treeOf(t, d.work) == want {
						t.Errorf("redo %v: it was done: %s, %v", redo, list.Undo, err)
					}
					again := op.UndoCall
					if redo {
						again = op.RedoCall
					}
					if _, err := again(t.Context(), call); err != nil {
						t.Errorf("redo %v, again: %v", redo, err)
					}
				}
				if got := treeOf(t, d.work); got != want {
					t.Errorf("redo %v: the workspace is\n%s\nwant\n%s\n%s", redo, got, want, d.log)
				}
				if list, err := op.Changes(t.Context(), client.ChangeFilter{Call: call}); err != nil || list.Undo != state {
					t.Errorf("redo %v: %s, want %s, %v", redo, list.Undo, state, err)
				}
				if left, _ := filepath.Glob(d.cells + "-stages/*"); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				d.verify()
				d.stop()
			}
		})
	}
	if _, err := os.Stat(d.cells + "-undo"); err != nil {
		t.Error(err)
	}
}

// undoBytes is what the undo store takes on disk.
func (d *daemon) undoBytes() (n int64) {
	d.t.Helper()
	err := filepath.WalkDir(d.cells+"-undo", func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil && path != d.cells+"-undo" {
			err = syscall.Lstat(path, &st)
			n += st.Blocks * 512
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// An undo store at its limit: what takes the room of the last day's, or has none at all, is asked about and says so; a no
// leaves everything, a yes costs what was said and nothing else, and there is never more in it than there may be.
func TestUndoStoreAtItsLimit(t *testing.T) {
	const limit, size = 1 << 20, 300 << 10
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(append(slices.Clone(shipped), "PALYRA_UNDO_BYTES=1048576")...)
	d.inWorkspace()
	op, agent := d.client(client.OperatorDoor), d.client(client.AgentDoor)
	content := map[string]string{}
	for i, name := range []string{"a", "b", "c", "d", "huge"} {
		content[name] = strings.Repeat(name[:1], size)
		if i == 4 {
			content[name] = strings.Repeat("h", 2*limit)
		}
		d.put(name, content[name])
	}
	kept := func(calls ...palyra.CallID) {
		t.Helper()
		all, err := op.UndoEntries(t.Context())
		n := d.undoBytes() // what is being removed counts until it is gone
		for give := time.Now().Add(waitMost); n > limit && time.Now().Before(give); n = d.undoBytes() {
			<-time.After(10 * time.Millisecond)
		}
		if err != nil || len(all) != len(calls) || n > limit {
			t.Errorf("%d entries and %d bytes, %v", len(all), n, err)
		}
		for _, e := range all {
			if !slices.Contains(calls, e.Call) {
				t.Errorf("%s is kept", e.Call)
			}
		}
	}
	unasked := func(script string) palyra.CallID {
		t.Helper()
		out := (<-propose(t.Context(), agent, d.inRoom(nil, "sh", "-c", script))).out
		if out.Effects != palyra.EffectsKept || out.ExitCode != 0 {
			t.Fatalf("%s: %+v", script, out)
		}
		return out.CallID
	}
	asked := func(script, note string, answer palyra.Answer, want palyra.Settlement) palyra.CallID {
		t.Helper()
		ch := propose(t.Context(), agent, d.inRoom(nil, "sh", "-c", script))
		a := d.pending(op)
		if notes := strings.Join(a.Prompt.Notes, "\n"); !strings.Contains(notes, note) {
			t.Errorf("it says %s", notes)
		}
		says := client.DecideRequest{ID: a.ID, Answer: answer, Digest: a.PlanDigest, Scope: palyra.ScopeOnce}
		if _, err := op.Decide(t.Context(), says); err != nil {
			t.Fatal(err)
		}
		out := (<-ch).out
		if out.Effects != want {
			t.Fatalf("%s: %+v", script, out)
		}
		return out.CallID
	}
	a, b, c := unasked("echo 1 > a"), unasked("echo 1 > b"), unasked("echo 1 > c")
	kept(a, b, c)
	const pushes = "takes the room of what a call of the last 24 hours replaced"
	asked("echo 1 > d", pushes, palyra.AnswerDeny, palyra.EffectsDropped)
	kept(a, b, c)
	again := asked("echo 2 > d", pushes, palyra.AnswerAllow, palyra.EffectsKept)
	kept(b, c, again)
	asked("echo 1 > huge", "cannot be undone later", palyra.AnswerAllow, palyra.EffectsKept)
	kept(b, c, again)
	for name, call := range map[string]palyra.CallID{"b": b, "c": c, "d": again} {
		if _, err := op.UndoCall(t.Context(), call); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(filepath.Join(d.work, name)); err != nil || string(text) != content[name] {
			t.Errorf("%s is not as it was, %v", name, err)
		}
	}
	if n := d.undoBytes(); n > limit {
		t.Errorf("%d bytes", n)
	}
	d.verify()
	d.stop()
}

// A file tool takes the room of the last day's, or writes what cannot be undone, only with an answer that was told so: a
// no changes nothing. So it is where nothing can be kept for undo at all.
func TestFileToolsAtTheUndoLimit(t *testing.T) {
	const size = 300 << 10
	for _, store := range []bool{true, false} {
		t.Run(fmt.Sprint("store ", store), func(t *testing.T) {
			d := newDaemon(t)
			if !store {
				if err := errors.Join(os.MkdirAll(filepath.Dir(d.cells), 0o700), os.WriteFile(d.cells+"-undo", nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			d.mustStart(append(slices.Clone(shipped), "PALYRA_UNDO_BYTES=1048576")...)
			d.inWorkspace()
			for i, name := range []string{"a", "b", "c", "d", "huge"} {
				if err := os.WriteFile(filepath.Join(d.work, name), make([]byte, size*(1+3*(i/4))), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if store {
				d.writesAtTheLimit()
			} else {
				d.writeAsked("a", "nothing is kept for 'palyra undo' here", palyra.AnswerAllow)
			}
			d.verify()
			d.stop()
		})
	}
}

func (d *daemon) writesAtTheLimit() {
	d.t.Helper()
	op := d.client(client.OperatorDoor)
	kept := func(n int) {
		d.t.Helper()
		all, err := op.UndoEntries(d.t.Context())
		if bytes := d.undoBytes(); err != nil || len(all) != n || bytes > 1<<20 {
			d.t.Errorf("%d entries and %d bytes, %v", len(all), bytes, err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		out := (<-propose(d.t.Context(), d.client(client.AgentDoor), d.rewrite(name, "new"))).out
		if out.Effects != palyra.EffectsKept || out.ExitCode != 0 {
			d.t.Fatalf("%s: %+v", name, out)
		}
	}
	kept(3)
	const pushes = "takes the room of what a call of the last 24 hours replaced"
	d.writeAsked("d", pushes, palyra.AnswerDeny)
	kept(3)
	call := d.writeAsked("d", pushes, palyra.AnswerAllow)
	kept(3)
	if _, err := op.UndoCall(d.t.Context(), call); err != nil {
		d.t.Error(err)
	}
	before := d.undoBytes()
	d.writeAsked("huge", "cannot be undone later", palyra.AnswerAllow)
	if now := d.undoBytes(); now != before {
		d.t.Errorf("%d bytes are kept, and were %d", now, before)
	}
}

// rewrite is a call that replaces a file.
func (d *daemon) rewrite(name, text string) client.CallRequest {
	args, _ := json.Marshal(map[string]string{"path": name, "content": text})
	return client.CallRequest{Tool: palyra.ToolFileWrite, Workspace: d.work, Arguments: args}
}

// writeAsked replaces a file, which is asked about with a note.
func (d *daemon) writeAsked(name, note string, answer palyra.Answer) palyra.CallID {
	d.t.Helper()
	op := d.client(client.OperatorDoor)
	ch := propose(d.t.Context(), d.client(client.AgentDoor), d.rewrite(name, string(answer)))
	a := d.pending(op)
	if notes := strings.Join(a.Prompt.Notes, "\n"); !a.Plan.Lasting || !a.Need.Fresh || !strings.Contains(notes, note) {
		d.t.Errorf("%s: lasting %v, need %+v, it says %s", name, a.Plan.Lasting, a.Need, notes)
	}
	says := client.DecideRequest{ID: a.ID, Answer: answer, Digest: a.PlanDigest, Scope: palyra.ScopeOnce}
	if _, err := op.Decide(d.t.Context(), says); err != nil {
		d.t.Fatal(err)
	}
	out := (<-ch).out
	text, err := os.ReadFile(filepath.Join(d.work, name))
	if wrote := string(text) == string(answer); err != nil || wrote != (answer == palyra.AnswerAllow) || wrote != (out.ExitCode == 0) {
		d.t.Errorf("%s: %.20q, %v, %+v", name, text, err, out)
	}
	return out.CallID
}

// An ordinary user's daemon undoes and redoes by that user's command: all kinds of changes, and nothing where somebody
// else's work is by now.
func TestUndoOfAnOrdinaryUser(t *testing.T) {
	d := newDaemon(t)
	d.furnishes()
	as := d.ordinary(shipped...)
	command := func(args ...string) string {
		t.Helper()
		out, err := as("palyra", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s\n%s", args, err, out, d.log)
		}
		return string(out)
	}
	command("workspace", "add", d.work)
	before := treeOf(t, d.work)
	var made palyra.Outcome
	said, err := as("palyra", "exec", "--json", "--tier", "c", "--", "sh", "s.sh").Output()
	if err != nil || json.Unmarshal(said, &made) != nil || made.Effects != palyra.EffectsKept {
		t.Fatalf("%v: %s\n%s", err, said, d.log)
	}
	after := treeOf(t, d.work)
	if after == before {
		t.Fatalf("nothing was changed:\n%s", d.log)
	}
	if would := command("undo", "--last", "--dry-run"); !strings.Contains(would, "tree/a/b/c") || treeOf(t, d.work) != after {
		t.Errorf("it would: %s", would)
	}
	for range 2 {
		command("undo", "--last")
		if got := treeOf(t, d.work); got != before {
			t.Fatalf("undone:\n%s\nwant\n%s", got, before)
		}
		if list := command("undo", "--list"); !strings.Contains(list, "undone") || !strings.Contains(list, "run sh s.sh") {
			t.Errorf("the list does not say what the call was: %s", list)
		}
		command("redo", "--last")
		if got := treeOf(t, d.work); got != after {
			t.Fatalf("redone:\n%s\nwant\n%s", got, after)
		}
	}
	d.put("d/y", "my own work")
	later := treeOf(t, d.work)
	out, err := as("palyra", "undo", "--last").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "d/y") || treeOf(t, d.work) != later {
		t.Errorf("somebody's work is in it: %v\n%s", err, out)
	}
}
