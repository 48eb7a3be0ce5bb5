package undo

import (
	"context"

	"palyra"
)

// Old is a path that a tool is about to change, and what a file there has.
type Old struct {
	palyra.Change
	Content []byte
}

// Remember keeps what a tool is about to replace in a workspace of uid's and gid's, and returns what is to be told whether
// it did. What cannot be kept is in the log: the tool goes on.
func (u *Undo) Remember(_ context.Context, call palyra.CallID, workspace string, uid, gid int64, all []Old) (changed func(bool)) {
	if u.Kept == nil {
		return func(bool) {}
	}
	var settle func(bool) error
	var err error
	asDaemon(func() { settle, err = u.Kept.add(string(call), workspace, uid, gid, all) })
	if err != nil {
		u.Log.Error("the files that a call replaces cannot be put back later", "call", call, "err", err)
		return func(bool) {}
	}
	return func(changed bool) {
		asDaemon(func() { err = settle(changed) })
		if err != nil {
			u.Log.Error("the files that a call replaced cannot be put back later", "call", call, "err", err)
		}
	}
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
