package wire

import (
	"time"

	"palyra"
)

// UndoState says whether what a call changed can be taken back.
type UndoState string

// The states of what is kept of a call.
const (
	UndoNone   UndoState = "none"   // nothing is kept
	UndoKept   UndoState = "kept"   // it can be undone
	UndoUndone UndoState = "undone" // it was, and can be redone
	UndoStaged UndoState = "staged" // it is an agent's, and waits for its person to keep or drop it
)

// CallChanges is what a call changed in its workspace: what became of it, how much it is, and a page of the list.
type CallChanges struct {
	Call       palyra.CallID     `json:"call_id"`
	Tool       palyra.ToolName   `json:"tool"`
	Principal  palyra.Principal  `json:"principal"`
	Workspace  string            `json:"workspace"`
	Summary    string            `json:"summary"`
	FinishedAt time.Time         `json:"finished_at,omitzero"`
	Effects    palyra.Settlement `json:"effects"`
	Counts     palyra.Effects    `json:"counts"`
	RunByTools []palyra.PathText `json:"run_by_tools"` // what builds and tests run
	Changes    []palyra.Change   `json:"changes"`
	Next       string            `json:"next_cursor"`
	More       int64             `json:"more"` // after this page, and those that are counted only
	Undo       UndoState         `json:"undo"`

	Approval    palyra.ApprovalID `json:"approval_id,omitempty"`         // the question that they wait for
	Quarantined []palyra.PathText `json:"sealed_path_created,omitempty"` // what was taken out of the workspace
	Lasting     palyra.CallID     `json:"lasting_call_id,omitempty"`     // cannot be undone, and is later than any that can
	LastingWhy  string            `json:"lasting_why,omitempty"`

	// Of an agent whose work is staged.
	Conflicts []palyra.PathText `json:"conflicts,omitempty"` // what somebody else changed since; it is not in the list
	Running   bool              `json:"running,omitempty"`   // it goes on
	Expires   time.Time         `json:"expires_at,omitzero"` // when it is dropped unless somebody decides
}

// ChangeFilter selects what a call changed. Without a call it is the last one that changed something.
type ChangeFilter struct {
	Call      palyra.CallID    `json:"call_id,omitempty"`
	Workspace string           `json:"workspace,omitempty"` // only in it; with no call
	Principal palyra.Principal `json:"principal,omitempty"` // only theirs; with no call
	Cursor    string           `json:"cursor,omitempty"`
	Limit     int64            `json:"limit,omitempty"`
}

// ChangeDiff is content before and after a call.
type ChangeDiff struct {
	Diff  string   `json:"diff"`
	Notes []string `json:"notes"` // what is not in it, and why
}

// UndoEntry is what is kept of one call.
type UndoEntry struct {
	Call      palyra.CallID    `json:"call_id"`
	Session   palyra.SessionID `json:"session_id"`
	Principal palyra.Principal `json:"principal"`
	Workspace string           `json:"workspace"`
	At        time.Time        `json:"at"`
	Paths     int64            `json:"paths"`
	Bytes     int64            `json:"bytes"`
	State     UndoState        `json:"state"`
	Summary   string           `json:"summary"` // of the call
	UndoneAt  time.Time        `json:"undone_at,omitzero"`
}

// Reverted is what an undo or a redo did, or would do.
type Reverted struct {
	Call      palyra.CallID   `json:"call_id"`
	Workspace string          `json:"workspace"`
	Counts    palyra.Effects  `json:"counts"`
	Changes   []palyra.Change `json:"changes"`
	More      int64           `json:"more"`
	Problem   string          `json:"problem,omitempty"` // why it is not possible
	Differ    []string        `json:"differ"`            // paths that are not as they were left
}
