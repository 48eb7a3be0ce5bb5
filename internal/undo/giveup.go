package undo

import (
	"context"
	"strings"
	"time"

	"palyra"
)

// failure is what is known of an entry that could not be sealed.
type failure struct {
	tries int
	since time.Time
}

// What cannot be sealed is forgotten after so many tries, and so much time: longer while the vault can seal nothing, which
// a person mends.
const (
	mostTries   = 10
	mostFailing = time.Hour
	mostLocked  = 24 * time.Hour
)

// noteSealed notes what became of sealing an entry, and has it tried again.
func (u *Undo) noteSealed(name string, err error) {
	s := &u.sealing
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failed, name)
		return
	}
	if s.failed == nil {
		s.failed = map[string]failure{}
	}
	f, again := s.failed[name]
	if !again {
		f.since = u.Now()
	}
	f.tries++
	s.failed[name] = f
	time.AfterFunc(sealAgain, func() { u.sealSoon(name) })
}

// hopeless reports whether an entry could not be sealed for so long that it is not kept any longer.
func (u *Undo) hopeless(name string) bool {
	patience := mostFailing
	if u.Sealer.Ready() != nil {
		patience = mostLocked
	}
	u.sealing.mu.Lock()
	defer u.sealing.mu.Unlock()
	f := u.sealing.failed[name]
	return f.tries >= mostTries && u.Now().Sub(f.since) >= patience
}

// giveUp forgets what is kept of a call of which an entry cannot be sealed: it would lie in clear for as long as undos are
// kept. Where that cannot be put on record it stays, and is tried again.
func (u *Undo) giveUp(ctx context.Context, name string, why error) {
	if !u.hopeless(name) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	id := palyra.CallID(strings.TrimSuffix(strings.TrimSuffix(name, afterUndo), afterRedo))
	line := palyra.CallReverted{
		Call: id, By: palyra.SystemDaemon, Reversal: palyra.ReversalForget, Result: palyra.ReversalDone, Reason: palyra.AsError(why).Reason,
	}
	if c, err := u.Calls(ctx, id); err == nil {
		line.List = listOf(c)
	}
	if _, err := u.Journal.Record(ctx, line); err != nil {
		u.Log.Warn("what cannot be sealed is kept, since that it goes cannot be put on record", "call", id, "err", err)
		return
	}
	if err := u.forget(id); err != nil {
		u.Log.Error("what cannot be sealed cannot be removed", "call", id, "err", err)
		return
	}
	u.noteSealed(name, nil)
	u.sealing.mu.Lock()
	u.sealing.gone++
	u.sealing.mu.Unlock()
	u.Log.Error("what a call replaced was forgotten: it could not be sealed", "call", id, "err", why)
}
