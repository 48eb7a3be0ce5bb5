package rpctest

import (
	"context"

	"palyra"
	"palyra/internal/rpc/wire"
)

// changesPart has what one call changed.
type changesPart struct{ *Parts }

func (c changesPart) Of(ctx context.Context, call *palyra.Call, _ wire.ChangeFilter) (wire.CallChanges, error) {
	c.note(ctx, "changes "+string(call.ID))
	return wire.CallChanges{
		Call: call.ID, Tool: "palyra.process.run", FinishedAt: At, Effects: palyra.EffectsKept, Undo: wire.UndoKept, More: 3, Next: "1",
		Counts: palyra.Effects{Created: 1, Link: 3, BytesNow: 9}, RunByTools: []palyra.PathText{"Makefile"},
		Changes: []palyra.Change{{
			Path: palyra.TextOfPath("a\xff"), Kind: palyra.ChangeLink, Was: &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: 9},
			Now: &palyra.PathState{Kind: palyra.PathLink, Target: palyra.TextOfPath("to\n")},
		}, {Path: "b", Kind: palyra.ChangeCreated, Now: &palyra.PathState{Kind: palyra.PathDirectory, Mode: 0o755}}},
	}, nil
}

func (c changesPart) Undoable(call *palyra.Call) (bool, string) { return true, "" }

func (c changesPart) Diff(ctx context.Context, call *palyra.Call, path palyra.PathText) (wire.ChangeDiff, error) {
	c.note(ctx, "diff "+string(call.ID)+" "+string(path))
	return wire.ChangeDiff{Diff: "-a\n+b\n", Notes: []string{}}, nil
}

func (c changesPart) List(ctx context.Context) ([]wire.UndoEntry, error) {
	c.note(ctx, "undo entries")
	return []wire.UndoEntry{{
		Call: "C1", Session: "S1", Principal: "agent:local", Workspace: "/w", At: At, Paths: 2, Bytes: 9, State: wire.UndoKept,
		Summary: "write a",
	}}, nil
}

func (c changesPart) Check(ctx context.Context, call *palyra.Call, _ bool) (wire.Reverted, error) {
	c.note(ctx, "check undo "+string(call.ID))
	return wire.Reverted{Call: call.ID, Problem: "it differs", Differ: []string{"a"}}, nil
}

func (c changesPart) Revert(
	ctx context.Context, call *palyra.Call, redo bool, by palyra.Principal, _ palyra.Signature,
) (wire.Reverted, error) {
	what := "undo "
	if redo {
		what = "redo "
	}
	c.note(ctx, what+string(call.ID)+" "+string(by))
	return wire.Reverted{Call: call.ID, Workspace: "/w", Counts: palyra.Effects{Removed: 1}}, nil
}

func (c changesPart) Forget(ctx context.Context, call *palyra.Call, by palyra.Principal, _ palyra.Signature) error {
	c.note(ctx, "forget "+string(call.ID)+" "+string(by))
	return nil
}
