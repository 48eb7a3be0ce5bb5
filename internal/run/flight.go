package run

import (
	"context"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/gate"
	"palyra/internal/run/calllog"
)

// flight is a call under way.
type flight struct {
	id      palyra.CallID
	session palyra.SessionID
	key     flightKey
	like    request
	owner   palyra.Principal
	payer   string        // in whose share it is counted
	parent  palyra.CallID // the call it came out of
	size    int64         // of its arguments
	lease   palyra.LeaseID
	granted bool // it was let run
	cancel  context.CancelCauseFunc
	feed    chan palyra.Feed // nil: nobody can feed it

	underway *underway // nil: nothing runs

	log      calllog.Log // what its followers hear, in order
	watchers map[*watcher]bool
	printed  int64         // bytes its output takes up here
	cut      bool          // no more of it is kept
	taken    chan struct{} // wakes output that waits for a caller
	stopping <-chan struct{}
	taped    calllog.Mark  // how far its output is on the tape of its run
	pumping  chan struct{} // wakes the pump that puts it there; nil: there is none
	fed      fed
	noted    time.Time     // when input had its line last
	noting   chan struct{} // wakes what puts input on record; nil: there is none

	done    chan struct{} // closed when outcome and err are set
	outcome palyra.Outcome
	err     error
}

// watcher hears a flight's log in order, on its caller's goroutine.
type watcher struct {
	wake   chan struct{}
	next   calllog.Mark
	took   calllog.Mark // it has heard everything before
	caller bool         // the call is its own, and it wants the output
}

// holding is what the calls of one payer take up.
type holding struct {
	calls int
	bytes int64 // of arguments
	shown int64 // of output
}

// hold books a flight's share, or gives it back with sign -1. The lock is held.
func (c *Calls) hold(f *flight, sign int) {
	h := c.held[f.payer]
	h.calls += sign
	h.bytes += int64(sign) * f.size
	h.shown += int64(sign) * f.printed
	c.shown += int64(sign) * f.printed
	if h.calls <= 0 {
		delete(c.held, f.payer)
		return
	}
	c.held[f.payer] = h
}

// fly registers a flight; input is the digest of its arguments as they were sent. The lock is held.
func (c *Calls) fly(id palyra.CallID, p palyra.Proposal, input palyra.Digest) *flight {
	f := &flight{
		id: id, session: p.Session, owner: p.Principal, payer: p.Payer(), parent: p.Parent, like: requestOf(p, input),
		size: int64(len(p.Arguments)), done: make(chan struct{}), watchers: map[*watcher]bool{}, taken: make(chan struct{}, 1),
	}
	c.byID[id] = f
	c.hold(f, 1)
	if p.Key != "" {
		f.key = flightKey{p.Session, p.Key}
		c.byKey[f.key] = f
	}
	return f
}

// launch runs a registered flight to its end. The lock is held.
func (c *Calls) launch(f *flight, walk func(context.Context, gate.Watcher) (palyra.Outcome, error)) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	f.cancel, f.stopping = cancel, ctx.Done()
	if f.like.tool == string(palyra.ToolProcessStart) && !f.like.check {
		c.Add(f.id, f.session, f.payer, cancel)
	}
	c.wg.Go(func() {
		defer cancel(nil)
		growStack(0)
		out, err := walk(ctx, gate.Watcher{
			Events:  func(call *palyra.Call, events ...palyra.Event) { c.publish(f, call, events) },
			Running: func(call *palyra.Call, pause func() func()) func() { return c.running(f, call, pause) },
		})
		if err != nil {
			err = fmt.Errorf("run: call %s: %w", f.id, err)
			c.strand(f.id)
		}
		c.land(f, out, err)
	})
}

// growStack makes the stack as large at once as a call will need it: otherwise it is made and copied several times over.
//
//go:noinline
func growStack(i int) byte {
	var room [20 << 10]byte
	return room[i]
}

// land ends a flight and answers everyone who follows it.
func (c *Calls) land(f *flight, out palyra.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, f.id)
	c.Remove(f.id)
	c.hold(f, -1)
	if c.byKey[f.key] == f {
		delete(c.byKey, f.key)
	}
	if calls := c.leases[f.lease]; calls != nil {
		delete(calls, f.id)
		if len(calls) == 0 {
			delete(c.leases, f.lease)
		}
	}
	f.outcome, f.err = out, err
	close(f.done)
}

// publish keeps events for every watcher, present and future, and notes the lease a call runs under. A lease that
// ended between the commit and this moment was told to nobody: it is looked at once more.
func (c *Calls) publish(f *flight, call *palyra.Call, events []palyra.Event) {
	shown := c.ledger.mask.Call(*call) // the call as it stood at all of them
	for _, e := range events {
		c.keep(f, &shown, e)
		if g, ok := e.(palyra.CallGranted); ok && g.Lease != "" && c.leaseEnded(g.Lease) {
			f.cancel(ErrLeaseEnded)
		}
	}
	c.recorded(call)
}

// recorded tells that what became of a call's changes is on record, where it is.
func (c *Calls) recorded(call *palyra.Call) {
	if call.State.Ended() && call.Keep != nil && c.settled != nil {
		c.settled(call)
	}
}

func (c *Calls) keep(f *flight, shown *palyra.Call, e palyra.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.log.Tell(shown, e)
	f.wake()
	g, granted := e.(palyra.CallGranted)
	f.granted = f.granted || granted
	if _, over := e.(palyra.CallSettling); over { // nothing runs under it any more
		delete(c.leases[f.lease], f.id)
	}
	if g.Lease != "" {
		f.lease = g.Lease
		if c.leases[g.Lease] == nil {
			c.leases[g.Lease] = map[palyra.CallID]bool{}
		}
		c.leases[g.Lease][f.id] = true
	}
}

// runsNow lets those who follow a call, now and later, hear that it runs. That is
// not durable: a call that a daemon died in does not run any more.
func (c *Calls) runsNow(f *flight, call *palyra.Call) {
	shown := c.ledger.mask.Call(*call)
	c.mu.Lock()
	defer c.mu.Unlock()
	f.log.Tell(&shown, nil)
	f.wake()
}

// wake tells the followers that there is something to hear. The lock is held.
func (f *flight) wake() {
	for w := range f.watchers {
		nudge(w.wake)
	}
}

// nudged waits for a nudge; false: the call ended first.
func (f *flight) nudged(ch <-chan struct{}) bool {
	select {
	case <-f.done:
		return false
	case <-ch:
		return true
	}
}

// rests waits for a while; false: the call ended first.
func (f *flight) rests(d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-f.done:
		return false
	case <-pause.C:
		return true
	}
}

// nudge wakes whoever waits on a channel of one, and never blocks.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// follow hands a flight's log to w, from the first line on, until it ends. Output waits for a caller.
func (c *Calls) follow(ctx context.Context, f *flight, w palyra.Watch, caller bool) (palyra.Outcome, error) {
	me := &watcher{wake: make(chan struct{}, 1), caller: caller && w.Output != nil}
	c.mu.Lock()
	f.watchers[me] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(f.watchers, me)
		c.mu.Unlock()
		nudge(f.taken)
	}()
	for {
		c.deliver(f, me, w)
		select {
		case <-ctx.Done():
			return palyra.Outcome{}, ctx.Err()
		case <-me.wake:
		case <-f.done:
			c.deliver(f, me, w)
			return f.outcome, f.err
		}
	}
}

func (c *Calls) deliver(f *flight, me *watcher, w palyra.Watch) {
	c.mu.Lock()
	var news []calllog.Item
	news, me.next = f.log.Since(me.next)
	c.mu.Unlock()
	for _, x := range news {
		switch {
		case x.Happened == nil && w.Output != nil:
			w.Output(x.Out)
		case x.Happened == nil:
		case x.Happened.Event == nil && w.Running != nil:
			w.Running(x.Happened.Call)
		case x.Happened.Event != nil && w.Event != nil:
			w.Event(x.Happened.Call, x.Happened.Event)
		}
	}
	c.mu.Lock()
	me.took = me.next
	c.mu.Unlock()
	if me.caller {
		nudge(f.taken)
	}
}
