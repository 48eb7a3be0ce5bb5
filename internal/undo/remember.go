package undo

import (
	"context"
	"errors"

	"palyra"
	"palyra/internal/effects"
)

// Old is a path that a tool is about to change, and what a file there has.
type Old struct {
	palyra.Change
	Content []byte
	AnyMode bool // with which permissions something is made is not known ahead
}

// Remember keeps what a tool is about to replace in a workspace of uid's and gid's, and returns what is to be told whether
// it did. What cannot be kept, or takes the room of what is new, is not replaced unless it may be lost: the error says why.
func (u *Undo) Remember(
	_ context.Context, call palyra.CallID, workspace string, uid, gid int64, all []Old, lose bool,
) (changed func(bool), _ error) {
	if u.Kept == nil {
		return func(bool) {}, nil
	}
	var settle func(bool) error
	var err error
	asDaemon(func() { settle, err = u.Kept.add(string(call), workspace, uid, gid, all, lose) })
	if none := (*NoRoomError)(nil); errors.As(err, &none) {
		return nil, noRoom(none)
	}
	if held := (*palyra.Error)(nil); errors.As(err, &held) {
		return nil, held
	}
	if err != nil {
		u.Log.Error("what a call replaces cannot be kept", "call", call, "err", err)
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "what it replaces cannot be kept, so nothing was changed").
			WithRemedy("see the daemon's log").WithCause(err)
	}
	return func(changed bool) {
		asDaemon(func() { err = settle(changed) })
		if err != nil {
			u.Log.Error("the files that a call replaced cannot be put back later", "call", call, "err", err)
		}
	}, nil
}

// Lasting says for people why what a tool would replace cannot be undone later, or what else cannot be because of it;
// empty: nothing of that.
func (u *Undo) Lasting(all []palyra.Change) string {
	if u.Kept == nil {
		return "cannot be undone later: nothing is kept for 'palyra undo' here"
	}
	var never bool
	var pushesOut int64
	asDaemon(func() { never, pushesOut = u.Room(u.Kept.size(all)) })
	return effects.Lasting(never, pushesOut)
}

// asDaemon works with the daemon's own rights: a tool works with those of the workspace's owner, which are its thread's.
func asDaemon(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
