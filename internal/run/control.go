package run

import (
	"context"
	"time"

	"palyra"
	"palyra/internal/gate"
)

// Get returns a call as the ledger has it.
func (c *Calls) Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error) {
	return c.ledger.Get(ctx, id)
}

// List returns a page of calls, newest first, without what is large.
func (c *Calls) List(ctx context.Context, f palyra.CallFilter) (page []*palyra.Call, next palyra.CallID, err error) {
	return c.ledger.List(ctx, f)
}

// Cancel stops a call: its open question is withdrawn, its run is ended.
func (c *Calls) Cancel(ctx context.Context, id palyra.CallID) error {
	c.mu.Lock()
	f := c.byID[id]
	c.mu.Unlock()
	if f == nil {
		call, err := c.ledger.Get(ctx, id)
		if err != nil {
			return err
		}
		if call.State.Ended() {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "call %s has ended: %s", id, call.State)
		}
		if f, err = c.reopen(ctx, call); err != nil || f == nil {
			return err
		}
	}
	f.cancel(ErrCancelled)
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LeaseEnded is told of every lease that ends other than by being used up: what runs
// under it is stopped, what a run was answered by it is taken back.
func (c *Calls) LeaseEnded(lease palyra.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.byID {
		f.underway.tell(lease)
	}
	for id := range c.leases[lease] {
		if f := c.byID[id]; f != nil {
			f.cancel(ErrLeaseEnded)
		}
	}
}

// CancelAll stops every call of a principal, as when its credential ends.
func (c *Calls) CancelAll(p palyra.Principal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.byID {
		if f.owner == p {
			f.cancel(ErrCancelled)
		}
	}
}

// InFlight returns how many calls are under way.
func (c *Calls) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}

// Running returns how many calls were let run and have not ended. Those that wait for an answer are not among them.
func (c *Calls) Running() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, f := range c.byID {
		if f.granted {
			n++
		}
	}
	return n
}

// Stop ends every flight and waits. Open questions stay open.
func (c *Calls) Stop() {
	c.stop(gate.ErrStopping)
	c.wg.Wait()
}

// endRun cancels every call of a run, those that nobody follows too, and waits
// until they have ended. It returns how many are still open when ctx ends.
func (c *Calls) endRun(ctx context.Context, run palyra.RunID) (open int, err error) {
	c.mu.Lock()
	var flights []*flight
	for _, f := range c.byID {
		if f.like.run == run {
			f.cancel(ErrCancelled)
			flights = append(flights, f)
		}
	}
	c.mu.Unlock()
	for _, f := range flights {
		select {
		case <-f.done:
		case <-ctx.Done():
		}
	}
	look := context.WithoutCancel(ctx)
	ids, err := c.ledger.openOf(look, run)
	if err != nil || len(ids) == 0 {
		return len(ids), err
	}
	for _, id := range ids {
		if err := c.Cancel(ctx, id); err != nil && palyra.CodeOf(err) != palyra.Conflict && ctx.Err() == nil {
			return len(ids), err
		}
	}
	ids, err = c.ledger.openOf(look, run)
	return len(ids), err
}

// Between two looks at a call that ended as it was looked at; the record is mostly there at the second one.
const (
	firstLook   = time.Millisecond
	longestLook = time.Second
)

// wait lets some time pass, if ctx does.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch follows a call that was made before and returns its outcome: at once where it has ended. w hears what the
// call's own client hears, of one that goes on from here. A call that waits since an earlier daemon is resumed.
// When ctx ends the call goes on.
func (c *Calls) Watch(ctx context.Context, id palyra.CallID, w palyra.Watch) (palyra.Outcome, error) {
	for rest := time.Duration(0); ; rest = min(2*rest+firstLook, longestLook) {
		if err := wait(ctx, rest); err != nil {
			return palyra.Outcome{}, err
		}
		c.mu.Lock()
		f := c.byID[id]
		c.mu.Unlock()
		if f == nil {
			call, err := c.ledger.Get(ctx, id)
			if err != nil {
				return palyra.Outcome{}, err
			}
			if err := c.isHeld(ctx, id); err != nil {
				return palyra.Outcome{}, err
			}
			if call.Outcome != nil {
				return *call.Outcome, nil
			}
			if f, err = c.reopen(ctx, call); err != nil {
				return palyra.Outcome{}, err
			}
		}
		if f == nil { // its end is on record now
			continue
		}
		out, err := c.follow(ctx, f, w, false)
		if palyra.CodeOf(err) != palyra.Conflict || ctx.Err() != nil { // Conflict: it ended as we looked; look again
			return out, err
		}
	}
}
