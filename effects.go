package palyra

import (
	"context"
	"encoding/json"
)

// ChangeKind is what happened to a path.
type ChangeKind string

// The kinds of changes.
const (
	ChangeCreated ChangeKind = "created" // nothing was there
	ChangeRemoved ChangeKind = "removed" // nothing is there
	ChangeMode    ChangeKind = "mode"    // only who may do what with it is different
	ChangeLink    ChangeKind = "link"    // a symbolic link leads elsewhere, took the place of something, or made way for it
	ChangeContent ChangeKind = "changed" // everything else
)

// PathKind is what sort of thing is at a path.
type PathKind string

// The kinds of things at a path.
const (
	PathFile      PathKind = "file"
	PathDirectory PathKind = "dir"
	PathLink      PathKind = "link"
	PathPipe      PathKind = "pipe"
	PathSocket    PathKind = "socket"
	PathDevice    PathKind = "device"
)

// PathState is what is at a path.
type PathState struct {
	Kind   PathKind `json:"kind"`
	Mode   uint32   `json:"mode"` // permissions, and of directories the sticky and group bits
	Size   int64    `json:"size"` // of a file
	Digest Digest   `json:"sha256,omitempty"`
	Target PathText `json:"target,omitempty"` // of a symbolic link
}

// Change is one path of a workspace that is another one after a run. Was or Now is nil where there is nothing. A file
// without a digest is one that its owner may not read, or one beyond what is read of a run: it counts as changed.
type Change struct {
	Path PathText   `json:"path"`
	Kind ChangeKind `json:"change"`
	Was  *PathState `json:"was,omitempty"`
	Now  *PathState `json:"now,omitempty"`
}

// Effects is what a run changed, in short: how many paths of each kind, how many bytes
// the files among them had and have, and the digest of the list that names them.
type Effects struct {
	Created  int64  `json:"created"`
	Changed  int64  `json:"changed"`
	Removed  int64  `json:"removed"`
	Mode     int64  `json:"mode"`
	Link     int64  `json:"link"`
	BytesWas int64  `json:"bytes_was"`
	BytesNow int64  `json:"bytes_now"`
	Digest   Digest `json:"list_sha256"`       // plain, of the list's bytes
	List     ID     `json:"list_id,omitempty"` // the artifact that has them; empty: they could not be kept
	Omitted  int64  `json:"omitted,omitempty"` // changes that are counted and not in the list
}

// Total is how many paths are different.
func (e Effects) Total() int64 { return e.Created + e.Changed + e.Removed + e.Mode + e.Link }

// EffectFacts is what policy is told of the changes of a run. Lists are bounded; what is beyond them is in Omitted.
type EffectFacts struct {
	Created int64 `json:"created"` // this and the next four are paths, as in Effects
	Changed int64 `json:"changed"`
	Removed int64 `json:"removed"`
	Mode    int64 `json:"mode"`
	Link    int64 `json:"link"`
	Bytes   int64 `json:"bytes"` // that files have which were created or changed
	// that were there before the run and are gone: removed, emptied, or with something else in their place
	RemovedFiles int64 `json:"removed_files"`
	Executables  int64 `json:"executables"` // files that are executable now and were not there or were not
	NeverKept    int64 `json:"never_kept"`  // set-id files, devices, sockets: they are left out whatever anybody says
	// per cent of the files that git knows in the workspace that are different; -1: not known
	Share       int64 `json:"share"`
	Omitted     int64 `json:"omitted"`                // changes and names beyond what is read or listed
	NotUndoable bool  `json:"not_undoable,omitempty"` // what they replace is more than can be kept for undo
	PushesOut   int64 `json:"pushes_out,omitempty"`   // calls of the last day that could not be undone any more
	// names that make other programs run code, at their real place, also in git's index and commits
	Trusted     []PathText `json:"trusted,omitempty"`
	Outward     []PathText `json:"outward,omitempty"`      // links that lead out of the workspace
	RunByTools  []PathText `json:"run_by_tools,omitempty"` // what builds and tests run
	Uncommitted []PathText `json:"uncommitted,omitempty"`  // edits that no commit has, and that go
	Rewound     []string   `json:"rewound,omitempty"`      // refs that lose commits
}

// Staged is what a run left on its stage, before any of it is kept.
type Staged struct {
	Effects Effects
	Facts   EffectFacts
	Detail  Detail // for people
}

// Ruling is what is to become of it.
type Ruling string

// The rulings.
const (
	RulingKeep Ruling = "keep"
	RulingDrop Ruling = "drop"
	RulingHold Ruling = "hold" // the stage stays until somebody has answered
)

// Weigher says what is to become of what a run left.
type Weigher func(ctx context.Context, s Staged) Ruling

// Keep is how it is decided whether the changes of a run are kept.
type Keep struct {
	Effects  Effects         `json:"effects"`
	Facts    EffectFacts     `json:"facts"`
	Digest   Digest          `json:"plan_digest"`     // of the plan with its effects: what is judged, and what people are asked
	Detail   Detail          `json:"detail,omitzero"` // for people
	Verdict  Verdict         `json:"verdict"`
	Approval ApprovalID      `json:"approval_id,omitempty"`
	Decision Decision        `json:"decision,omitzero"`
	Result   json.RawMessage `json:"result,omitempty"` // while the question is open
}
