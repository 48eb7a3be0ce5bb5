package undo

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"palyra"
	"palyra/internal/tool"
)

type fake struct {
	all   []palyra.Change
	whole bool
	bytes int64
}

func (f fake) Preview(context.Context, tool.Env, string, palyra.CallID) ([]palyra.Change, palyra.Detail, bool, error) {
	return f.all, palyra.Detail{Diff: "-a\n"}, f.whole, nil
}

func (f fake) Size(context.Context, tool.Env, string, palyra.CallID) (paths, bytes int64, err error) {
	return int64(len(f.all)), f.bytes, nil
}

func (f fake) Undo(context.Context, tool.Env, string, palyra.CallID) (palyra.Effects, error) {
	return palyra.Effects{Removed: 1}, nil
}

func planOf(f fake) (palyra.Plan, error) {
	p := palyra.Plan{Tool: palyra.ToolUndo, Arguments: json.RawMessage(`{"call_id":"C1"}`)}
	return p, taker{f}.Plan(context.Background(), tool.Env{}, &p)
}

// The plan names every path, what is removed, and binds what is there now.
func TestPlan(t *testing.T) {
	file := &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Digest: "sha256:1"}
	p, err := planOf(fake{[]palyra.Change{
		{Path: "z", Kind: palyra.ChangeRemoved, Was: file},
		{Path: "a b", Kind: palyra.ChangeCreated, Now: file},
		{Path: palyra.TextOfPath(""), Was: file, Now: file},
	}, true, mostBytes})
	want := []palyra.Input{{Path: "."}, {Path: "a b"}, {Path: "z"}}
	want[0].Digest, want[0].Mode, want[2].Digest, want[2].Mode = "sha256:1", 0o644, "sha256:1", 0o644
	if err != nil || !slices.Equal(p.Writes, []string{".", "a b", "z"}) || !slices.Equal(p.Removes, []string{"z"}) ||
		!slices.Equal(p.Inputs, want) || p.Unshown || p.Detail.Diff == "" || p.Detail.Summary == "" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := planOf(fake{}); err != nil || !p.Unshown {
		t.Errorf("what is not shown: %+v, %v", p, err)
	}
}

// What cannot be shown whole is for people.
func TestPlanRefuses(t *testing.T) {
	if _, err := planOf(fake{all: []palyra.Change{{Path: palyra.TextOfPath("\xff")}}, whole: true}); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("a name of bytes: %v", err)
	}
	for name, f := range map[string]fake{"too many": {all: make([]palyra.Change, mostPaths+1)}, "too much": {bytes: mostBytes + 1}} {
		if _, err := planOf(f); palyra.CodeOf(err) != palyra.Exhausted {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := palyra.Plan{Arguments: json.RawMessage(`{"x":1}`)}
	if err := (taker{fake{}}).Plan(t.Context(), tool.Env{}, &p); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("%v", err)
	}
	p.Arguments = json.RawMessage(`{"call_id":"C1"}`)
	if out, err := (taker{fake{}}).Run(t.Context(), tool.Env{}, p); err != nil || len(out) == 0 {
		t.Errorf("%s, %v", out, err)
	}
}
