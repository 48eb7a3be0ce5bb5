// Package undo knows what calls changed in their workspaces and what they replaced: it lists it, shows it, puts it back,
// and forgets it in time.
//
// Words: to undo a call is to put back what it replaced or removed and to remove what it made; to redo it is to take
// that back. What is kept of a call lies in a directory of the daemon's own, under the call's id; what an undo replaced
// lies there too.
//
// Promises. A call is undone whole or not at all, and only where every path that it changed is as the call left it:
// nobody's later work is lost. Who undid what is on record before anything changes, and so is what became of it. What
// is kept is sealed behind the call, under a key that the vault holds, and what cannot be sealed is forgotten after an
// hour, or after a day while the vault is locked and never sealed; until then it lies as it was. It goes after some
// days. There is never more of it than there may be, in blocks of the disk, but for the entry that is being sealed or
// opened, which is there twice: for something new the oldest goes first, and what is younger than a day only where
// somebody agreed to that, or for what a file tool replaces.
//
// It judges nobody: whoever asks has seen to it that the call may be seen, or undone.
package undo

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/rpc/wire"
	"palyra/internal/sandbox"
)

// Lists has the lists of what calls changed.
type Lists interface {
	Of(ctx context.Context, call palyra.CallID, id palyra.ID) ([]byte, error)
}

// Recorder keeps what happened.
type Recorder interface {
	Record(ctx context.Context, events ...palyra.Event) (palyra.Position, error)
}

// Config wires an Undo. All but Kept is required.
type Config struct {
	Lists   Lists
	Calls   func(context.Context, palyra.CallID) (*palyra.Call, error)
	Journal Recorder
	Kept    *Kept                            // what calls replaced; nil: nothing is kept here
	Sealer  Sealer                           // seals that; nil: it lies as it was
	Masks   *dotenv.Masks                    // files whose secret values are not shown; nil: none
	Staged  func() (sandbox.Reviewer, error) // the work of agents that waits; nil: there is none
	For     time.Duration                    // how long it is kept
	Most    int64                            // bytes that are kept
	Now     func() time.Time
	Log     *slog.Logger
}

// Undo is what calls changed and replaced.
type Undo struct {
	Config
	mu sync.Mutex // one reversal, or removal, at a time

	store sync.Mutex // of what follows, and of who removes; taken last
	heads headCache
	taken map[string]int64 // room for what is about to be kept, by its name
	busy  palyra.CallID    // that is being undone or redone

	sealing sealing
}

// New returns an Undo.
func New(c Config) (*Undo, error) {
	if c.Lists == nil || c.Calls == nil || c.Journal == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("undo: new: a part is missing")
	}
	if c.Kept != nil {
		if err := c.Kept.sweep(); err != nil {
			c.Log.Warn("the unfinished entries of an earlier daemon cannot be removed", "err", err)
		}
	}
	u := &Undo{Config: c, taken: map[string]int64{}}
	if c.Kept != nil {
		c.Kept.bound(u)
		if c.Sealer != nil {
			c.Kept.sealWith(c.Sealer, u.stranded)
		}
	}
	return u, nil
}

// Close gives back what New was given.
func (u *Undo) Close() error {
	if u.Kept == nil {
		return nil
	}
	u.endSealing()
	return u.Kept.close()
}

// What is kept of a call lies under its id; what an undo of it replaced, and what a redo did, under these besides. The
// last is there only until the two are in step: it says that the undo is taken back.
const (
	afterUndo = "-undone"
	afterRedo = "-redone"
)

// kept is what is kept of one call.
type kept struct {
	call      palyra.CallID
	workspace string
	at        time.Time // of the last of what happened
	made      time.Time // of the call itself
	paths     int64
	bytes     int64
	state     wire.UndoState
}

// all returns what is kept, by call.
func (u *Undo) all() (map[palyra.CallID]kept, error) {
	u.store.Lock()
	defer u.store.Unlock()
	out, _, err := u.entries()
	return out, err
}

// entries returns what is kept, by call, and the names of it. The store's lock is held.
func (u *Undo) entries() (out map[palyra.CallID]kept, there map[string]bool, err error) {
	out, there = map[palyra.CallID]kept{}, map[string]bool{}
	if u.Kept == nil {
		return out, there, nil
	}
	names, err := u.Kept.names()
	if err != nil {
		return nil, nil, unreadable(err)
	}
	u.settleRedone(names)
	for _, name := range names {
		there[name] = true
		h, err := u.heads.read(u.Kept, name)
		if err != nil {
			u.Log.Warn("the files that a call replaced cannot be read", "entry", name, "err", err)
			continue
		}
		id, undone := strings.CutSuffix(name, afterUndo)
		k := out[palyra.CallID(id)]
		k.call, k.workspace = palyra.CallID(id), h.workspace
		if k.bytes += h.bytes; h.at.After(k.at) {
			k.at = h.at
		}
		if undone {
			k.state = wire.UndoUndone
		} else {
			k.paths, k.made, k.state = h.paths, h.at, cmp.Or(k.state, wire.UndoKept)
		}
		out[k.call] = k
	}
	u.heads.only(names)
	return out, there, nil
}

// settleRedone removes what is kept of undos that were taken back, which a crash may have left. The store's lock is held.
func (u *Undo) settleRedone(names []string) {
	for i, name := range names {
		id, redone := strings.CutSuffix(name, afterRedo)
		if !redone {
			continue
		}
		if err := errors.Join(u.Kept.forget(id+afterUndo), u.Kept.forget(name)); err != nil {
			u.Log.Warn("leftovers of an undo that was taken back cannot be removed", "call", id, "err", err)
		}
		names[i] = ""
		if at := slices.Index(names, id+afterUndo); at >= 0 {
			names[at] = ""
		}
	}
}

// state says what is kept of a call.
func (u *Undo) state(id palyra.CallID) wire.UndoState {
	u.mu.Lock()
	defer u.mu.Unlock()
	all, err := u.all()
	if err != nil {
		return wire.UndoNone
	}
	return cmp.Or(all[id].state, wire.UndoNone)
}

// List returns what can be undone or redone, newest first.
func (u *Undo) List(ctx context.Context) ([]wire.UndoEntry, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all, err := u.all()
	if err != nil {
		return nil, err
	}
	out := make([]wire.UndoEntry, 0, len(all))
	for id, k := range all {
		e := wire.UndoEntry{Call: id, Workspace: k.workspace, At: k.made, Paths: k.paths, Bytes: k.bytes, State: k.state}
		if k.state == wire.UndoUndone {
			e.UndoneAt = k.at
		}
		c, err := u.Calls(ctx, id)
		if err != nil && palyra.CodeOf(err) != palyra.NotFound {
			return nil, err
		}
		if err == nil {
			e.Session, e.Principal, e.Summary = c.Proposal.Session, c.Proposal.Principal, c.Detail.Summary
		}
		out = append(out, e)
	}
	staged, err := u.stagedWorks(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, staged...)
	slices.SortFunc(out, func(a, b wire.UndoEntry) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(string(b.Call), string(a.Call)))
	})
	return out, nil
}

// young is how old what is kept must be to go because there is too much of it.
const young = 24 * time.Hour

// Prune removes what was kept for long enough, and the oldest where there is too much. It returns how many calls that
// were.
func (u *Undo) Prune(ctx context.Context) (int, error) {
	defer u.SealAll()
	u.mu.Lock()
	defer u.mu.Unlock()
	all, err := u.all()
	if err != nil {
		return 0, err
	}
	list, total := make([]kept, 0, len(all)), int64(0)
	for _, k := range all {
		list, total = append(list, k), total+k.bytes
	}
	slices.SortFunc(list, func(a, b kept) int { return a.at.Compare(b.at) })
	gone, errs := 0, []error{}
	for _, k := range list {
		age := u.Now().Sub(k.at)
		old := u.For > 0 && age > u.For
		over := u.Most > 0 && total > u.Most // it was lowered
		if ctx.Err() != nil || !old && !over {
			continue
		}
		if err := u.forget(k.call); err != nil {
			errs = append(errs, err)
			continue
		}
		gone, total = gone+1, total-k.bytes
	}
	return gone, errors.Join(append(errs, u.expire(ctx))...)
}

func (u *Undo) forget(id palyra.CallID) error {
	u.store.Lock()
	defer u.store.Unlock()
	return u.remove(id)
}

// remove removes what is kept of a call. What an undo of it replaced goes first: without the rest it means nothing. The
// store's lock is held.
func (u *Undo) remove(id palyra.CallID) error {
	if err := u.Kept.forget(string(id) + afterUndo); err != nil {
		return err
	}
	return u.Kept.forget(string(id))
}

// Forget removes what is kept of a call, which can then not be undone or redone any more.
func (u *Undo) Forget(ctx context.Context, c *palyra.Call, by palyra.Principal, sig palyra.Signature) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := u.keptOf(c.ID); err != nil {
		return err
	}
	line := palyra.CallReverted{
		Call: c.ID, By: by, Reversal: palyra.ReversalForget, Result: palyra.ReversalDone, List: listOf(c), Signature: sig,
	}
	if _, err := u.Journal.Record(ctx, line); err != nil {
		return err
	}
	if err := u.forget(c.ID); err != nil {
		return unreadable(err)
	}
	return nil
}

// keptOf finds what is kept of a call. The lock is held.
func (u *Undo) keptOf(id palyra.CallID) (kept, error) {
	all, err := u.all()
	if err != nil {
		return kept{}, err
	}
	k, ok := all[id]
	if !ok {
		return kept{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound,
			"what the call replaced is not kept: it changed nothing, wrote to its workspace directly, or is too old").
			WithRemedy("see 'palyra undo --list' for what can be undone")
	}
	return k, nil
}

// listOf is the digest of the list of what a call changed; empty: there is none.
func listOf(c *palyra.Call) palyra.Digest {
	changed, _ := c.Changed()
	if changed == nil {
		return ""
	}
	return changed.Digest
}

func unreadable(err error) error {
	if e := (*palyra.Error)(nil); errors.As(err, &e) { // the vault's, which opens what is sealed
		return e
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "the replaced files of calls cannot be read or removed").
		WithRemedy("see the daemon's log, and the directory that 'palyra config path' names").WithCause(err)
}
