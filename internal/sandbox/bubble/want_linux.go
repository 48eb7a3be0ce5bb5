package bubble

import (
	"encoding/json"
	"slices"
	"strconv"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cage"
	"palyra/internal/stage"
)

// want is everything that decides what a room is like. It does not change.
type want struct {
	room  bwrap.Room
	seals []string
	doors []cell.Listener
	unix  bool
	stage bool          // writes to the workspace go to a stage
	bound []stage.Bound // files that lie on it
	moves []string      // directories that lie there whole, so that they can be renamed
	layer palyra.CallID // the agent whose stage it is, instead of one of its own; empty: none
	cage  *cage.Cage    // of a skill's script; nil: it is none
	lends bool          // it is that agent's own room
	key   string        // equal for equal rooms
	place string        // equal for the same sealed names in the same directory
}

// wantLike is the want of a job. Most jobs want what the last one did, and share it: nobody changes it.
func (b *Backend) wantLike(j sandbox.Job) *want {
	if last := b.last.Load(); last != nil && last.same(j) {
		return last
	}
	w := b.want(j)
	if j.Cage == nil && j.Layer == "" {
		b.last.Store(w)
	}
	return w
}

// same reports whether a job wants the same, by everything that want reads of it.
func (w *want) same(j sandbox.Job) bool {
	r := &w.room
	return j.Cage == nil && j.Layer == "" && r.UID == j.UID && r.GID == j.GID && r.Workspace == j.Workspace &&
		r.Repository == j.Repository && w.unix == j.Unix && w.stage == j.Staged &&
		slices.Equal(r.Mounts, j.Mounts) && slices.Equal(r.Files, j.Files) && slices.Equal(w.seals, j.Seals) &&
		slices.Equal(w.doors, j.Doors) && slices.Equal(w.bound, j.Bound) && slices.Equal(w.moves, j.Renames)
}

// want is what decides about the room of a job, anew.
func (b *Backend) want(j sandbox.Job) *want {
	w := &want{
		room: bwrap.Room{
			UID: j.UID, GID: j.GID, Workspace: j.Workspace, Repository: j.Repository, Mounts: slices.Clone(j.Mounts),
			Files: slices.Clone(j.Files), Tmp: b.config.Tmp,
		},
		seals: slices.Clone(j.Seals), doors: slices.Clone(j.Doors), unix: j.Unix,
		stage: j.Staged, bound: slices.Clone(j.Bound), moves: slices.Clone(j.Renames),
		layer: j.Layer, lends: j.Layer != "" && j.Layer == j.Call,
	}
	if w.stage || w.lends {
		w.room.Stages = b.config.Stages
	}
	var held any
	if c := j.Cage; c != nil {
		w.cage, w.room.Pack, held = c, c.Pack, []any{c.Read, c.Write, c.Programs, c.Pack.At, c.Pack.Digest}
	}
	w.place = placeOf(j.Workspace, w.seals)
	w.key = w.place + keyOf(j.UID, j.GID, w.room.Repository, w.room.Mounts, w.room.Files, w.doors, w.unix, w.room.Tmp,
		w.stage, w.bound, w.moves, w.layer, held)
	return w
}

// placeOf encodes a workspace and its sealed names, each with its length before it. There are many names, and every call
// asks.
func placeOf(workspace string, seals []string) string {
	size := len(workspace) + 8
	for _, s := range seals {
		size += len(s) + 4
	}
	b := make([]byte, 0, size)
	add := func(text string) {
		b = append(append(strconv.AppendInt(b, int64(len(text)), 10), ':'), text...)
	}
	add(workspace)
	for _, s := range seals {
		add(s)
	}
	return string(b)
}

// keyOf encodes values one after the other, as JSON, which delimits them.
func keyOf(values ...any) string {
	b, _ := json.Marshal(values) // plain values cannot fail
	return string(b)
}
