package undo

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/effects"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/rpc/wire"
	"palyra/internal/sandbox"
	"palyra/internal/stage"
	"palyra/internal/tool"
)

// bench is a workspace with what its calls replaced.
type bench struct {
	*testing.T
	*Undo
	ws, dir string
	stages  *stage.Stages
	past    *preimage.Store
	lines   []palyra.CallReverted
	calls   map[palyra.CallID]*palyra.Call
	lists   map[palyra.CallID][]byte
	now     time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, dir: t.TempDir(), calls: map[palyra.CallID]*palyra.Call{}, lists: map[palyra.CallID][]byte{}, now: time.Now()}
	b.ws = filepath.Join(b.dir, "ws")
	b.must(os.Mkdir(b.ws, 0o755))
	b.open()
	return b
}

// open opens what an earlier daemon left.
func (b *bench) open() {
	b.Helper()
	var err error
	b.stages, err = stage.Open(filepath.Join(b.dir, "stages"), stage.Limits{}, slog.New(slog.DiscardHandler))
	b.must(err)
	b.past, err = preimage.Open(filepath.Join(b.dir, "undo"))
	b.must(err)
	b.Cleanup(func() { _, _ = b.past.Close(), b.stages.Close() })
	b.Undo, err = New(Config{
		Lists: b, Calls: b.get, Journal: b, Kept: NewKept(b.stages, b.past), For: 7 * 24 * time.Hour, Most: 1 << 20,
		Now: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler),
	})
	b.must(err)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(_ context.Context, id palyra.CallID) (*palyra.Call, error) {
	if c := b.calls[id]; c != nil {
		return c, nil
	}
	return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "none")
}

func (b *bench) Of(ctx context.Context, call palyra.CallID, _ palyra.ID) ([]byte, error) {
	if text := b.lists[call]; text != nil {
		return text, nil
	}
	return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "none")
}

func (b *bench) Record(_ context.Context, events ...palyra.Event) (palyra.Position, error) {
	for _, e := range events {
		b.lines = append(b.lines, e.(palyra.CallReverted))
	}
	return palyra.Position{}, nil
}

// call writes files into the workspace by way of a stage, as a run does; a text after → is where a link leads.
func (b *bench) call(id palyra.CallID, files map[string]string) *palyra.Call {
	b.Helper()
	g, err := b.stages.Make(b.ws, owner.Identity{UID: int64(os.Geteuid()), GID: int64(os.Getegid())})
	b.must(err)
	for name, text := range files {
		to := filepath.Join(g.Path(), stage.Upper, name)
		b.must(os.MkdirAll(filepath.Dir(to), 0o755))
		if target, link := strings.CutPrefix(text, "→"); link {
			b.must(os.Symlink(target, to))
			continue
		}
		b.must(os.WriteFile(to, []byte(text), 0o644))
	}
	b.must(g.Remember(b.past, string(id)))
	out, err := g.Keep(b.Context(), nil, nil)
	b.must(err)
	if !out.Remembered {
		b.Fatalf("%+v", out)
	}
	g.Drop()
	e, text, err := effects.List(sandbox.ChangesOf(out.Changes))
	b.must(err)
	e.List = "L"
	c := &palyra.Call{ID: id, Outcome: &palyra.Outcome{Effects: palyra.EffectsKept, Changes: &e}}
	c.Plan.Workspace.Path, c.Proposal.Principal, c.Proposal.Session = b.ws, "agent:a", "S1"
	b.calls[id], b.lists[id] = c, text
	return c
}

func (b *bench) read(name string) string {
	text, err := os.ReadFile(filepath.Join(b.ws, name))
	if err != nil {
		return "none"
	}
	return string(text)
}

func (b *bench) states() map[palyra.CallID]wire.UndoState {
	b.Helper()
	all, err := b.List(b.Context())
	b.must(err)
	out := map[palyra.CallID]wire.UndoState{}
	for _, e := range all {
		out[e.Call] = e.State
	}
	return out
}

// A call is undone and redone, as often as one likes, and each is on record twice.
func TestUndoRedo(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte("old\n"), 0o600))
	c := b.call("C1", map[string]string{"f": "new\n", "d/raw\xff": "x"})
	for round := range 2 {
		would, err := b.Check(t.Context(), c, false)
		if err != nil || would.Problem != "" || would.Counts.Total() != 3 || b.read("f") != "new\n" {
			t.Fatalf("round %d: %+v, %v", round, would, err)
		}
		done, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
		b.must(err)
		back := b.read("f") == "old\n" && b.read("d/raw\xff") == "none"
		if done.Counts != would.Counts || done.Counts.Removed != 2 || !back || b.states()["C1"] != wire.UndoUndone {
			t.Errorf("round %d, undone: %+v %v", round, done, b.states())
		}
		if _, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{}); palyra.CodeOf(err) != palyra.Conflict {
			t.Errorf("twice: %v", err)
		}
		if _, err := b.Diff(t.Context(), c, ""); palyra.CodeOf(err) != palyra.Conflict {
			t.Errorf("a diff of what is not there: %v", err)
		}
		_, err = b.Revert(t.Context(), c, true, "user:ann", palyra.Signature{})
		b.must(err)
		if b.read("f") != "new\n" || b.read("d/raw\xff") != "x" || b.states()["C1"] != wire.UndoKept {
			t.Errorf("round %d, redone: %v", round, b.states())
		}
		if _, err := b.Revert(t.Context(), c, true, "user:ann", palyra.Signature{}); palyra.CodeOf(err) != palyra.Conflict {
			t.Errorf("redone twice: %v", err)
		}
	}
	results := []palyra.ReversalResult{}
	for _, l := range b.lines[:4] {
		if l.Call != "C1" || l.By != "user:ann" || l.List != c.Outcome.Changes.Digest {
			t.Errorf("%+v", l)
		}
		results = append(results, l.Result)
	}
	want := []palyra.ReversalResult{palyra.ReversalBegun, palyra.ReversalDone, palyra.ReversalBegun, palyra.ReversalDone}
	if !slices.Equal(results, want) || len(b.lines) != 8 {
		t.Errorf("%v", b.lines)
	}
}

// Somebody's later work is never lost: the call stays as it is, and it is told what differs.
func TestUndoRefusesLaterWork(t *testing.T) {
	b := newBench(t)
	c := b.call("C1", map[string]string{"f": "new\n", "g": "g\n"})
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte("later\n"), 0o644))
	_, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
	if palyra.CodeOf(err) != palyra.Conflict || !strings.Contains(err.Error(), ": f") || strings.Contains(err.Error(), "g,") {
		t.Errorf("%v", err)
	}
	would, err := b.Check(t.Context(), c, false)
	if err != nil || would.Problem == "" || !slices.Equal(would.Differ, []string{"f"}) {
		t.Errorf("%+v, %v", would, err)
	}
	if b.read("f") != "later\n" || b.read("g") != "g\n" || len(b.lines) > 0 || b.states()["C1"] != wire.UndoKept {
		t.Errorf("%v %v", b.lines, b.states())
	}
	if left, _ := os.ReadDir(filepath.Join(b.dir, "stages")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// Several calls on one file are undone newest first, and not in another order.
func TestUndoOrder(t *testing.T) {
	b := newBench(t)
	first := b.call("C1", map[string]string{"f": "1"})
	second := b.call("C2", map[string]string{"f": "2"})
	if _, err := b.Revert(t.Context(), first, false, "user:ann", palyra.Signature{}); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("the older one first: %v", err)
	}
	all, err := b.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Call != "C2" || all[0].Session != "S1" || all[0].Paths != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, c := range []*palyra.Call{second, first} {
		_, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
		b.must(err)
	}
	if b.read("f") != "none" {
		t.Errorf("%q", b.read("f"))
	}
}

// A crash between a redo and the removal of what the undo had kept leaves both: the redo counts.
func TestRedoThatWasCutOff(t *testing.T) {
	b := newBench(t)
	c := b.call("C1", map[string]string{"f": "1"})
	_, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
	b.must(err)
	r, err := b.Kept.prepare(t.Context(), "C1"+afterUndo)
	b.must(err)
	_, _, err = r.keep(t.Context(), "C1"+afterRedo)
	b.must(err)
	r.drop()
	b.open()
	if got := b.states(); got["C1"] != wire.UndoKept || len(got) != 1 {
		t.Errorf("%v", got)
	}
	names, err := b.past.Names()
	if err != nil || !slices.Equal(names, []string{"C1"}) {
		t.Errorf("%v, %v", names, err)
	}
	_, err = b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
	b.must(err)
}

// What is kept goes in time, and the oldest first where less may be kept than is.
func TestPrune(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a", "b", "c"} {
		b.must(os.WriteFile(filepath.Join(b.ws, name), make([]byte, 600), 0o644))
	}
	for id, name := range map[palyra.CallID]string{"C1": "a", "C2": "b", "C3": "c"} {
		b.call(id, map[string]string{name: "small"})
	}
	prune := func(after time.Duration, want ...palyra.CallID) {
		t.Helper()
		b.now = time.Now().Add(after)
		if _, err := b.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := b.states()
		for _, id := range want {
			if got[id] == "" {
				t.Errorf("after %s: %v, want %v", after, got, want)
			}
		}
		if len(got) != len(want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	if n := len(b.states()); n != 3 {
		t.Fatal(n)
	}
	prune(time.Hour, "C1", "C2", "C3")
	b.Most = 40 << 10 // each takes some 16 KiB
	b.now = time.Now().Add(time.Hour)
	if gone, err := b.Prune(t.Context()); err != nil || gone != 1 {
		t.Errorf("%d, %v", gone, err)
	}
	left := b.states()
	b.Most = 1 << 30
	prune(6*24*time.Hour, slices.Collect(func(yield func(palyra.CallID) bool) {
		for id := range left {
			yield(id)
		}
	})...)
	prune(8 * 24 * time.Hour)
}

// What is forgotten can not be undone, and that is on record.
func TestForget(t *testing.T) {
	b := newBench(t)
	c := b.call("C1", map[string]string{"f": "1"})
	b.must(b.Forget(t.Context(), c, "user:ann", palyra.Signature{}))
	if len(b.lines) != 1 || b.lines[0].Reversal != palyra.ReversalForget || len(b.states()) != 0 {
		t.Errorf("%v %v", b.lines, b.states())
	}
	for name, err := range map[string]error{
		"again": b.Forget(t.Context(), c, "user:ann", palyra.Signature{}),
		"undo": func() error {
			_, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
			return err
		}(),
	} {
		if palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The list of a call comes in pages; one that is not the recorded one is refused, one that is gone is counted.
func TestChanges(t *testing.T) {
	b := newBench(t)
	c := b.call("C1", map[string]string{"a": "1", "b\xff": "2", "c": "3"})
	u := b.Undo
	page, err := u.Of(t.Context(), c, wire.ChangeFilter{Limit: 2})
	if err != nil || len(page.Changes) != 2 || page.Next != "2" || page.More != 1 || page.Undo != wire.UndoKept || page.Counts.Created != 3 {
		t.Errorf("%+v, %v", page, err)
	}
	page, err = u.Of(t.Context(), c, wire.ChangeFilter{Limit: 2, Cursor: "2"})
	if err != nil || len(page.Changes) != 1 || page.Next != "" || page.More != 0 || page.Changes[0].Path != "c" {
		t.Errorf("%+v, %v", page, err)
	}
	for _, cursor := range []string{"-1", "4", "x", "99999999999999999999"} {
		if _, err := u.Of(t.Context(), c, wire.ChangeFilter{Limit: 2, Cursor: cursor}); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q: %v", cursor, err)
		}
	}
	b.lists["C1"] = append([]byte{' '}, b.lists["C1"]...)
	if _, err := u.Of(t.Context(), c, wire.ChangeFilter{Limit: 2}); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("another list: %v", err)
	}
	delete(b.lists, "C1")
	if page, err = u.Of(t.Context(), c, wire.ChangeFilter{Limit: 2}); err != nil || len(page.Changes) != 0 || page.More != 3 {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := u.Of(t.Context(), &palyra.Call{ID: "C9"}, wire.ChangeFilter{}); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("a call without changes: %v", err)
	}
}

// A diff shows text before and after, of all or of a path, and says what it does not show.
func TestDiff(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte("one\ntwo\n"), 0o644))
	c := b.call("C1", map[string]string{"f": "one\nTWO\n", "d/n\xff": "made\n", "bin": "\x00\x01", "later": "1\n"})
	b.must(os.WriteFile(filepath.Join(b.ws, "later"), []byte("2\n"), 0o644))
	d, err := b.Diff(t.Context(), c, "")
	b.must(err)
	for _, want := range []string{"--- a/f\n+++ b/f\n", "-two\n+TWO\n", "--- /dev/null\n+++ \"b/d/n\\xff\"\n", "+made\n"} {
		if !strings.Contains(d.Diff, want) {
			t.Errorf("no %q in %s", want, d.Diff)
		}
	}
	if !slices.Equal(d.Notes, []string{"bin is not shown: it is not text", "later is not shown: it is not as the call left it"}) {
		t.Errorf("%q", d.Notes)
	}
	for path, want := range map[palyra.PathText]string{"f": "b/f", "d": "n\\xff", `"d/n\xff"`: "made"} {
		d, err := b.Diff(t.Context(), c, path)
		if err != nil || !strings.Contains(d.Diff, want) || strings.Count(d.Diff, "+++") != 1 || len(d.Notes) > 0 {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
	if _, err := b.Diff(t.Context(), c, `"\q`); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("%v", err)
	}
}

// A diff shows no secret value of a file like .env, whatever that is called: by what links to it, by another name of it, before and
// after that is one.
func TestDiffMasksByAnyName(t *testing.T) {
	b := newBench(t)
	b.Masks = &dotenv.Masks{Key: []byte("key")}
	const made = "A=secretsecret2\nPORT=2\n"
	at := func(name string) string { return filepath.Join(b.ws, name) }
	for name, n := range map[string]string{".env": "7", "real": "8", "plain": "9"} {
		b.must(os.WriteFile(at(name), []byte("A=secretsecret"+n+"\nPORT=1\n"), 0o644))
	}
	b.must(os.Symlink("../ws/real", at("current.env")))
	b.must(os.Link(at(".env"), at("twin")))
	c := b.call("C1", map[string]string{"real": made, "twin": made, "plain": "A=secretsecret4\nPORT=2\n"})
	c.Plan.Workspace.Path = b.ws
	d, err := b.Diff(t.Context(), c, "")
	b.must(err)
	if strings.Count(d.Diff, "secretsecret") != 2 || !strings.Contains(d.Diff, "-A=secretsecret9\n") ||
		strings.Count(d.Diff, "+PORT=2") != 3 ||
		!slices.Contains(d.Notes, "secret values of real are masked") || !slices.Contains(d.Notes, "secret values of twin are masked") {
		t.Errorf("%s\n%q", d.Diff, d.Notes)
	}
	// Where nobody can tell nothing is shown.
	b.must(os.Symlink("/proc/self/cwd/plain", at("odd.env")))
	if d, err = b.Diff(t.Context(), c, ""); err != nil || d.Diff != "" || len(d.Notes) != 3 || !strings.Contains(d.Notes[0], "odd.env") {
		t.Errorf("%s\n%q, %v", d.Diff, d.Notes, err)
	}
}

// What waits for an answer is shown from its stage, whole or per file, and not once it was dropped.
func TestDiffOfWhatIsHeld(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte("one\ntwo\n"), 0o644))
	g, err := b.stages.Make(b.ws, owner.Identity{UID: int64(os.Geteuid()), GID: int64(os.Getegid())})
	b.must(err)
	b.must(g.Assign("C1"))
	for name, text := range map[string]string{"f": "one\nTWO\n", "n": "made\n", "bin": "\x00"} {
		b.must(os.WriteFile(filepath.Join(g.Path(), stage.Upper, name), []byte(text), 0o644))
	}
	out, err := g.Keep(t.Context(), nil, func(stage.Found) stage.Ruling { return stage.RulingHold })
	b.must(err)
	g.Drop()
	e, _, err := effects.List(sandbox.ChangesOf(out.Changes))
	b.must(err)
	c := &palyra.Call{ID: "C1", State: palyra.Settling, Keep: &palyra.Keep{Effects: e}}
	d, err := b.Diff(t.Context(), c, "")
	b.must(err)
	want := "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+made\n"
	if d.Diff != want || !slices.Equal(d.Notes, []string{"bin is not shown: it is not text"}) {
		t.Errorf("%s\n%q", d.Diff, d.Notes)
	}
	if d, err = b.Diff(t.Context(), c, "n"); err != nil || d.Diff != want[strings.Index(want, "--- /dev"):] || len(d.Notes) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := b.Diff(t.Context(), c, "other"); palyra.CodeOf(err) != palyra.NotFound || !strings.Contains(err.Error(), "no file other") {
		t.Errorf("%v", err)
	}
	_, err = b.stages.Settle(t.Context(), "C1", stage.RulingDrop, nil, nil)
	b.must(err)
	c.State, c.Outcome = palyra.Finished, &palyra.Outcome{Outcome: palyra.OutcomeFinished, Effects: palyra.EffectsDropped, Changes: &e}
	_, err = b.Diff(t.Context(), c, "")
	if palyra.CodeOf(err) != palyra.NotFound || !strings.Contains(err.Error(), "did not come into the workspace") {
		t.Errorf("%v", err)
	}
}

// Of a call that has not run, what was shown of it is shown, whole or per file; lines of content begin no file.
func TestDiffOfWhatWouldBe(t *testing.T) {
	b := newBench(t)
	one := "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- a/g\n+++ b/g\n x\n@@ -9 +9 @@\n-y\n+z\n"
	two := "--- \"a/n\\xff\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
	c := &palyra.Call{ID: "C1", State: palyra.Pending, Approval: "A1", Detail: palyra.Detail{Diff: one + two}}
	for path, want := range map[palyra.PathText]string{"": one + two, "f": one, `"n\xff"`: two} {
		if d, err := b.Diff(t.Context(), c, path); err != nil || d.Diff != want {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
	if _, err := b.Diff(t.Context(), c, "g"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("%v", err)
	}
}

// What no changes are known of is explained by where the call stands.
func TestWhyNoChanges(t *testing.T) {
	b := newBench(t)
	live := palyra.Staging{Writes: palyra.WritesLive, Why: "a terminal"}
	for want, c := range map[string]palyra.Call{
		"it waits for an answer and has not run":           {State: palyra.Pending},
		"it is running":                                    {State: palyra.Running},
		"it did not run":                                   {State: palyra.Refused, Plan: palyra.Plan{Staging: live}},
		"it changed nothing":                               {State: palyra.Finished},
		"wrote to its workspace directly (a terminal)":     {State: palyra.Finished, Plan: palyra.Plan{Staging: live}},
		"stopped while it ran, and what it changed is not": {State: palyra.Unknown},
	} {
		c.ID = "C1"
		_, err := b.Undo.Of(t.Context(), &c, wire.ChangeFilter{Limit: 1})
		_, again := b.Diff(t.Context(), &c, "")
		if palyra.CodeOf(err) != palyra.NotFound || !strings.Contains(err.Error(), want) || again.Error() != err.Error() {
			t.Errorf("%s: %v, %v", want, err, again)
		}
	}
}

// A call that changed its workspace and cannot be undone says why; one that is undone, or changed nothing, does not count.
func TestUndoable(t *testing.T) {
	b := newBench(t)
	c := b.call("C1", map[string]string{"f": "new\n"})
	look := func(what string, c *palyra.Call, can bool, want string) {
		t.Helper()
		if got, why := b.Undoable(c); got != can || !strings.Contains(why, want) || (why == "") != (want == "") {
			t.Errorf("%s: %v, %q", what, got, why)
		}
	}
	look("kept", c, true, "")
	all, err := b.List(t.Context())
	b.must(err)
	_, err = b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
	b.must(err)
	look("undone", c, false, "")
	if later, err := b.List(t.Context()); err != nil || !later[0].At.Equal(all[0].At) {
		t.Errorf("the time of the call became that of the undo: %v, %v", later, err)
	}
	b.must(b.Forget(t.Context(), c, "user:ann", palyra.Signature{}))
	look("forgotten", c, false, "not kept")
	live := palyra.Plan{Staging: palyra.Staging{Writes: palyra.WritesLive, Why: "a terminal"}}
	look("live", &palyra.Call{ID: "C2", State: palyra.Finished, Plan: live}, false, "directly (a terminal)")
	look("refused", &palyra.Call{ID: "C2", State: palyra.Refused, Plan: live}, false, "")
	live.ReadOnly = true
	look("only reads", &palyra.Call{ID: "C2", State: palyra.Finished, Plan: live}, false, "")
}

// An agent undoes its own call through the tool, and nobody else's.
func TestUndoOfAnAgent(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte("old\n"), 0o644))
	c := b.call("C1", map[string]string{"f": "new\n", "n": "made\n"})
	c.Proposal.Parent = "R1"
	own := tool.Env{Call: "C2", Principal: "agent:a", Parent: "R1"}
	u := b.Undo
	for name, x := range map[string]struct {
		env tool.Env
		ws  string
		id  palyra.CallID
	}{
		"another agent":     {tool.Env{Principal: "agent:b", Parent: "R1"}, b.ws, "C1"},
		"another room":      {tool.Env{Principal: "agent:a", Parent: "R2"}, b.ws, "C1"},
		"outside its room":  {tool.Env{Principal: "agent:a"}, b.ws, "C1"},
		"another workspace": {own, b.dir, "C1"},
		"no workspace":      {own, "", "C1"},
		"no such call":      {own, b.ws, "C9"},
	} {
		if _, _, _, err := u.Preview(t.Context(), x.env, x.ws, x.id); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%s looks: %v", name, err)
		}
		if _, err := u.Undo(t.Context(), x.env, x.ws, x.id); palyra.CodeOf(err) != palyra.NotFound || b.read("f") != "new\n" {
			t.Errorf("%s undoes: %v", name, err)
		}
	}
	if paths, bytes, err := u.Size(t.Context(), own, b.ws, "C1"); err != nil || paths == 0 || bytes == 0 {
		t.Errorf("%d paths and %d bytes, %v", paths, bytes, err)
	}
	all, shown, whole, err := u.Preview(t.Context(), own, b.ws, "C1")
	if err != nil || len(all) != 2 || !whole || !strings.Contains(shown.Diff, "-new\n+old\n") ||
		!strings.Contains(shown.Diff, "+++ /dev/null\n") {
		t.Errorf("%v %+v %v", all, shown, err)
	}
	if _, err := u.Undo(t.Context(), own, b.ws, "C1"); err != nil || b.read("f") != "old\n" || b.read("n") != "none" {
		t.Errorf("%v", err)
	}
	if n := len(b.lines); n != 2 || b.lines[1].By != "agent:a" || b.lines[1].Through != "C2" || b.lines[1].Result != palyra.ReversalDone {
		t.Errorf("%+v", b.lines)
	}
}

// Links that an undo puts back or takes away are shown with what they say. One that leads out, can come to, or makes
// another do so is not passed off as shown; nor is one that is cut.
func TestUndoOfLinks(t *testing.T) {
	for name, x := range map[string]struct {
		was   map[string]string // links before the call
		made  string            // what the call makes of l
		note  string
		whole bool
	}{
		"ordinary":     {map[string]string{"l": "dir/f"}, "text", "l: a file of mode 644 becomes a link to dir/f", true},
		"another":      {map[string]string{"l": "dir/f"}, "→g", "l: a link to g becomes a link to dir/f", true},
		"taken away":   {nil, "→g", "l: a link to g becomes nothing", true},
		"out":          {map[string]string{"l": "/etc"}, "text", "l would lead out", false},
		"shown too":    {map[string]string{"l": "/etc"}, "text", "becomes a link to /etc", false},
		"by another":   {map[string]string{"l": "o/x", "o": "../.."}, "text", "l would lead out", false},
		"strays":       {map[string]string{"l": "o/../x", "o": "p/q"}, "text", "l would lead out of the workspace, or can come to", false},
		"another does": {map[string]string{"a": "l/../../x"}, "→p/q/r", "a would lead out", false},
		"long":         {map[string]string{"l": strings.Repeat("x", 300)}, "text", "l: a file", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for l, to := range x.was {
				b.must(os.Symlink(to, filepath.Join(b.ws, l)))
			}
			b.call("C1", map[string]string{"l": x.made})
			_, shown, whole, err := b.Preview(t.Context(), tool.Env{Principal: "agent:a"}, b.ws, "C1")
			if err != nil || whole != x.whole || !strings.Contains(strings.Join(shown.Notes, "\n"), x.note) {
				t.Errorf("%v %q %v", whole, shown.Notes, err)
			}
		})
	}
}

// A tool changes no file that something under way holds in its place; all else it does, and what was asked ends with it.
func TestRememberAsksWhetherItMayBeChanged(t *testing.T) {
	b := newBench(t)
	open := 0
	b.stages.Admit = func(_, _ string, paths []string) (refused []string, done func()) {
		open++
		if slices.Contains(paths, ".envrc") {
			refused = []string{".envrc (held)"}
		}
		return refused, func() { open-- }
	}
	for path, code := range map[palyra.PathText]palyra.Code{".envrc": palyra.Conflict, "f": ""} {
		olds := []Old{{Change: palyra.Change{Path: path, Now: &palyra.PathState{Kind: palyra.PathFile, Mode: 0o600}}}}
		changed, err := b.Remember(t.Context(), "C0", b.ws, int64(os.Geteuid()), int64(os.Getegid()), olds, false)
		if err != nil && palyra.CodeOf(err) != code || err == nil && code != "" {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			if open != 1 {
				t.Errorf("%s: %d open", path, open)
			}
			changed(true)
		}
		if open != 0 {
			t.Errorf("%s: %d open at the end", path, open)
		}
	}
}

// What a tool that works on files itself replaced is undone like anything else; what it did not do in the end is forgotten.
func TestUndoOfATool(t *testing.T) {
	b := newBench(t)
	f := filepath.Join(b.ws, "f")
	b.must(os.WriteFile(f, []byte("old\n"), 0o600))
	state := func(text string, mode uint32) *palyra.PathState {
		return &palyra.PathState{Kind: palyra.PathFile, Mode: mode, Size: int64(len(text)), Digest: palyra.SumBytes([]byte(text))}
	}
	olds := []Old{{Change: palyra.Change{Path: "f", Was: state("old\n", 0o600), Now: state("new\n", 0o644)}, Content: []byte("old\n")}}
	uid, gid := int64(os.Geteuid()), int64(os.Getegid())
	changed, err := b.Remember(t.Context(), "C0", b.ws, uid, gid, olds, false)
	b.must(err)
	changed(false)
	changed, err = b.Remember(t.Context(), "C1", b.ws, uid, gid, olds, false)
	b.must(err)
	b.must(os.WriteFile(f, []byte("new\n"), 0o600))
	b.must(os.Chmod(f, 0o644))
	changed(true)
	c := &palyra.Call{ID: "C1", Outcome: &palyra.Outcome{}}
	b.calls["C1"] = c
	if got := b.states(); len(got) != 1 || got["C1"] != wire.UndoKept {
		t.Errorf("%v", got)
	}
	u := b.Undo
	list, err := u.Of(t.Context(), c, wire.ChangeFilter{Limit: 10})
	if err != nil || len(list.Changes) != 1 || list.Changes[0].Kind != palyra.ChangeContent ||
		list.Counts.Changed != 1 || list.Effects != palyra.EffectsKept {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{}); err != nil || b.read("f") != "old\n" {
		t.Errorf("%v %q", err, b.read("f"))
	}
	if fi, err := os.Stat(f); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
	if _, err := b.Revert(t.Context(), c, true, "user:ann", palyra.Signature{}); err != nil || b.read("f") != "new\n" {
		t.Errorf("%v %q", err, b.read("f"))
	}
}
