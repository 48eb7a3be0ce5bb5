package tiers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
)

// full is a shelf on which there is no more room.
type full struct{}

func (full) Keep(context.Context, palyra.SessionID, palyra.CallID, []byte) (palyra.ID, error) {
	return "", errors.New("the session's artifacts would take too much")
}

// What is on no list that anybody can read is told to policy as not listed: a session that spends its room for
// artifacts does not get its changes off the record unasked.
func TestChangesWithoutAListAreOmitted(t *testing.T) {
	tiers := &Tiers{Config: Config{Log: slog.New(slog.DiscardHandler), Lists: full{}}}
	call := &palyra.Call{ID: "C1", Plan: palyra.Plan{Workspace: palyra.WorkspaceRef{Path: t.TempDir()}}}
	file := &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: 1, Digest: palyra.SumBytes(nil)}
	left := sandbox.Left{Changes: []palyra.Change{
		{Path: "a", Kind: palyra.ChangeCreated, Now: file}, {Path: "b", Kind: palyra.ChangeCreated, Now: file},
	}}
	s, err := tiers.list(t.Context(), call, left)
	if err != nil || s.Effects.List != "" || s.Effects.Omitted != 0 || s.Facts.Omitted != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	if !strings.Contains(strings.Join(s.Detail.Notes, "\n"), "too large to be read: 2") {
		t.Errorf("%q", s.Detail.Notes)
	}
}
