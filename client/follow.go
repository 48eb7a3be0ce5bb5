package client

import (
	"context"
	"sync"
	"time"

	"palyra"
)

// Caller is what following a call needs of a client; *Client is one.
type Caller interface {
	// Call proposes a call and waits for its outcome.
	Call(ctx context.Context, r CallRequest, watch func(CallEvent)) (palyra.Outcome, error)
	// WatchCall follows a call that was made before.
	WatchCall(ctx context.Context, id palyra.CallID, watch func(CallEvent)) (palyra.Outcome, error)
	// CancelCall ends a call.
	CancelCall(ctx context.Context, id palyra.CallID) error
}

// FollowOptions says how a call is followed. Any function may be nil. Watch and Lost are called one
// at a time; Cancelling may be called beside them.
type FollowOptions struct {
	// Watch is called with every event, in order, after the Following knows it.
	Watch func(CallEvent)
	// Cancelling is called when the call is about to be cancelled.
	Cancelling func(id palyra.CallID)
	// Lost is called when the daemon went away. The call is then looked for until the daemon is back: a call that is
	// on record is watched; one that may not be is proposed again by its key, for a few seconds, and never without a
	// key. Nil: a daemon that goes away ends the following with its error.
	Lost func(error)
}

// Following is a call that is followed from its proposal to its outcome. The call itself lives at
// the daemon: hanging up leaves it, and only Cancel ends it. Safe for concurrent use.
type Following struct {
	line    line
	caller  Caller
	request CallRequest
	options FollowOptions
	known   chan struct{}
	running chan struct{}
	done    chan struct{}
	outcome palyra.Outcome // valid after done
	err     error          // valid after done

	mu       sync.Mutex // guards progress
	progress Progress
}

// Patience with a call that is let go of, and with one that has no id yet.
const (
	idPatience = 2 * time.Second
	unknownFor = 5 * time.Second // how long a call that may not be on record is looked for
)

// Follow proposes a call and follows it. Wait or Close must be called.
func Follow(c Caller, r CallRequest, o FollowOptions) *Following {
	f := newFollowing(c, o)
	f.request = r
	go f.pursue()
	return f
}

// FollowKnown follows a call that was made before. Wait or Close must be called.
func FollowKnown(c Caller, id palyra.CallID, o FollowOptions) *Following {
	f := newFollowing(c, o)
	f.progress.ID = id
	close(f.known)
	go f.pursue()
	return f
}

func newFollowing(c Caller, o FollowOptions) *Following {
	return &Following{
		line: newLine(), caller: c, options: o, known: make(chan struct{}), running: make(chan struct{}), done: make(chan struct{}),
	}
}

// Known is closed when the call has an id.
func (f *Following) Known() <-chan struct{} { return f.known }

// Running is closed when the call runs: its own questions are answered.
func (f *Following) Running() <-chan struct{} { return f.running }

// Done is closed when the call has ended, or cannot be followed any more.
func (f *Following) Done() <-chan struct{} { return f.done }

// Progress is how far a call has come, as far as its follower knows.
type Progress struct {
	ID       palyra.CallID      // "" before it has one
	Question *ApprovalRequested // waits for an answer; nil: no question is open
	Running  bool               // the call's own questions are answered
	Away     bool               // the daemon went away and is not back yet
}

// Progress says how far the call has come.
func (f *Following) Progress() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress
}

// ID is the call's id; "" before it has one.
func (f *Following) ID() palyra.CallID { return f.Progress().ID }

// Outcome waits for the end and returns it. An error means that the outcome is not known here.
func (f *Following) Outcome() (palyra.Outcome, error) {
	<-f.done
	return f.outcome, f.err
}

// Wait returns the outcome. When ctx ends first the call is cancelled, and its outcome then says
// so. A call that gets no id within a moment is left.
func (f *Following) Wait(ctx context.Context) (palyra.Outcome, error) {
	attended(ctx, func() { <-f.done }, func() {
		ctx, done := context.WithTimeout(context.Background(), idPatience)
		defer done()
		_ = f.Cancel(ctx) // the outcome shows it, or the error of hanging up
	})
	f.HangUp()
	return f.outcome, f.err
}

// HangUp stops following the call, which goes on.
func (f *Following) HangUp() { f.line.hangUp() }

// Close hangs up and returns when no more callbacks come. The call goes on.
func (f *Following) Close() {
	f.HangUp()
	<-f.done
}

// Cancel ends the call at the daemon as soon as it has an id, for which it waits until ctx ends. The outcome
// arrives as that of any call. When cancelling fails or takes too long, Cancel hangs up.
func (f *Following) Cancel(ctx context.Context) error {
	select {
	case <-f.done:
	case <-f.known:
	case <-ctx.Done():
		f.HangUp()
		return ended(ctx)
	}
	if f.isOver() {
		return nil
	}
	id := f.ID()
	if f.options.Cancelling != nil {
		f.options.Cancelling(id)
	}
	return f.line.cancel(func(ctx context.Context) error { return f.caller.CancelCall(ctx, id) })
}

// isOver reports whether no more events of the call will come.
func (f *Following) isOver() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// pursue follows the call to its outcome, and over restarts of the daemon if Lost is set.
func (f *Following) pursue() {
	defer close(f.done)
	began := time.Now()
	for wait := pause(0); ; {
		f.outcome, f.err = f.callOnce()
		if f.err == nil || f.line.ctx.Err() != nil || f.options.Lost == nil || !goneAway(f.err) || !f.findable(began) {
			return
		}
		f.note(func(p *Progress) { p.Away = true })
		f.options.Lost(f.err)
		if wait.longer(f.line.ctx) != nil {
			return
		}
	}
}

// callOnce makes the call, or watches it where its id is known.
func (f *Following) callOnce() (palyra.Outcome, error) {
	if id := f.ID(); id != "" {
		return f.caller.WatchCall(f.line.ctx, id, f.hear)
	}
	return f.caller.Call(f.line.ctx, f.request, f.hear)
}

// findable reports whether the call can be found again: by its id, or for a while by its key.
func (f *Following) findable(began time.Time) bool {
	return f.ID() != "" || f.request.Key != "" && time.Since(began) <= unknownFor
}

// goneAway reports whether an error means only that the daemon went away.
func goneAway(err error) bool {
	switch palyra.AsError(err).Reason {
	case ReasonNoDaemon, ReasonConnectionLost, palyra.ReasonStopping:
		return true
	}
	return false
}

// hear handles an event of the call.
func (f *Following) hear(e CallEvent) {
	switch {
	case e.Accepted != nil:
		f.note(func(p *Progress) {
			if p.ID == "" {
				close(f.known)
			}
			p.ID, p.Away = e.Accepted.CallID, false
		})
	case e.ApprovalRequested != nil:
		f.note(func(p *Progress) { p.Question = e.ApprovalRequested })
	case e.ApprovalResolved != nil:
		f.note(func(p *Progress) { p.Question = nil })
	case e.Running != nil:
		f.note(func(p *Progress) {
			if !p.Running {
				close(f.running)
			}
			p.Running, p.Question = true, nil
		})
	}
	if f.options.Watch != nil {
		f.options.Watch(e)
	}
}

func (f *Following) note(change func(*Progress)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.progress)
}
