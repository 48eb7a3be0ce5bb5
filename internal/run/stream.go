package run

import (
	"bytes"
	"context"
	"slices"
	"time"

	"palyra"
	"palyra/internal/run/calllog"
)

// Bounds on what flights keep of their output for followers. A flight that meets one forgets what the caller it
// belongs to has taken, and waits for that caller as a pipe does, so that it gets everything. Where nobody takes it,
// the flight keeps no more: later followers then have a clean beginning, and the outcome has what is signed.
const (
	maxPrinted   = 4 << 20   // of a flight
	maxShownEach = 64 << 20  // of a principal's flights
	maxShownAll  = 256 << 20 // of all flights
)

// patience is how long output waits for a caller that takes nothing of it.
const patience = 10 * time.Second

// Output adds to what a running call has printed. Followers hear it on their own goroutines; a call of a run has it
// on the run's tape too. It waits for none of them but the caller, see patience.
func (c *Calls) Output(id palyra.CallID, x palyra.Chunk) {
	c.mu.Lock()
	f := c.byID[id]
	c.mu.Unlock()
	c.Print(id, x.Data)
	if f != nil && c.show(f, x) {
		c.pump(f)
	}
}

// show keeps a chunk for the followers and reports whether anything of it was.
func (c *Calls) show(f *flight, x palyra.Chunk) bool {
	again := time.NewTicker(patience / 100) // other flights may have taken the room, and say nothing when they end
	defer again.Stop()
	over := false
	for wait := time.NewTimer(patience); ; {
		kept, full := c.tryShow(f, x, over)
		if !full {
			wait.Stop()
			return kept
		}
		select {
		case <-f.taken:
			wait.Reset(patience)
		case <-again.C:
		case <-f.stopping:
			over = true
		case <-wait.C:
			over = true
		}
	}
}

// tryShow is show without waiting. full: there is no room before the caller takes more. Nothing is kept once it is over.
func (c *Calls) tryShow(f *flight, x palyra.Chunk, over bool) (kept, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.cut = f.cut || over; f.cut || len(x.Data) == 0 || c.byID[f.id] != f {
		return false, false
	}
	if c.room(f) < int64(len(x.Data)) {
		c.book(f, -f.forget())
	}
	room := c.room(f)
	if room < int64(len(x.Data)) && (f.lags() || len(f.callers()) > 0 && maxPrinted-f.printed-calllog.PerPiece >= int64(len(x.Data))) {
		return false, true
	}
	if f.cut = room < int64(len(x.Data)); room <= 0 {
		return false, false
	}
	x.Data = x.Data[:min(room, int64(len(x.Data)))]
	c.book(f, f.log.Print(x))
	f.wake()
	return true, false
}

// room is how many bytes more a flight may keep. The lock is held.
func (c *Calls) room(f *flight) int64 {
	return min(maxPrinted-f.printed, maxShownEach-c.held[f.payer].shown, maxShownAll-c.shown) - calllog.PerPiece
}

// book counts what a flight keeps. The lock is held.
func (c *Calls) book(f *flight, cost int64) {
	h := c.held[f.payer]
	h.shown += cost
	c.held[f.payer] = h
	f.printed += cost
	c.shown += cost
}

// callers are the marks up to which the flight's callers have taken everything. The tape of a run takes a bounded
// part: nobody waits there. The lock is held.
func (f *flight) callers() (took []calllog.Mark) {
	for w := range f.watchers {
		if w.caller && f.like.run == "" {
			took = append(took, w.took)
		}
	}
	return took
}

// lags reports whether a caller has not taken all that is there. The lock is held.
func (f *flight) lags() bool {
	return slices.ContainsFunc(f.callers(), f.log.End().After)
}

// forget drops the output that all callers have taken, and returns what it had cost. The lock is held.
func (f *flight) forget() int64 {
	took := f.callers()
	if len(took) == 0 {
		return 0
	}
	return f.log.Forget(slices.MinFunc(took, calllog.Mark.Compare))
}

// Bounds on what waits for a runner to read it.
const (
	feedDepth = 8
	maxFeed   = 32 << 10 // bytes in one Feed; Send splits what is longer
)

// Feed returns what is sent to a running call. It is false when nobody can feed it: there is no such call here, or
// it was resumed after a restart, without the client it belongs to.
func (c *Calls) Feed(id palyra.CallID) (<-chan palyra.Feed, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.byID[id]
	if f == nil || f.feed == nil {
		return nil, false
	}
	return f.feed, true
}

// Send hands x to a call under way, in the order of the calls of Send, and puts on record who did. Whether they may
// is the door's business. It blocks while the call does not read, until ctx or the call ends: Conflict when the
// call is over or cannot be fed, NotFound when there is none.
func (c *Calls) Send(ctx context.Context, id palyra.CallID, by palyra.Reach, x palyra.Feed) error {
	c.mu.Lock()
	f := c.byID[id]
	c.mu.Unlock()
	if f == nil {
		return c.cannotFeed(ctx, id)
	}
	if f.feed == nil {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonStdinDenied, "call %s went on after a restart and takes no input", id).
			WithRemedy("cancel it and propose it again")
	}
	x.Data = bytes.Clone(x.Data)
	if err := c.note(ctx, f, by, x); err != nil {
		return err
	}
	for len(x.Data) > maxFeed {
		if err := f.send(ctx, palyra.Feed{Data: x.Data[:maxFeed:maxFeed]}); err != nil {
			return err
		}
		x.Data = x.Data[maxFeed:]
	}
	return f.send(ctx, x)
}

func (f *flight) send(ctx context.Context, x palyra.Feed) error {
	select {
	case <-f.done:
		return errFeedOver(f.id)
	default:
	}
	select {
	case f.feed <- x:
		return nil
	case <-f.done:
		return errFeedOver(f.id)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cannotFeed says why a call that is not under way here cannot be fed.
func (c *Calls) cannotFeed(ctx context.Context, id palyra.CallID) error {
	call, err := c.ledger.Get(ctx, id)
	if err != nil {
		return err
	}
	if call.State.Ended() {
		return errFeedOver(id)
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonStdinDenied, "call %s takes no input now: it is %s", id, call.State)
}

func errFeedOver(id palyra.CallID) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "call %s has ended", id)
}
