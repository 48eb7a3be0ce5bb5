package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"palyra"
	"palyra/internal/gate"
	"palyra/internal/ulid"
)

// ErrCancelled is the cause of a call's context when somebody cancelled it.
var ErrCancelled = errors.New("run: cancelled")

// ErrLeaseEnded is the cause when the lease a running call depends on ended.
var ErrLeaseEnded = errors.New("run: the grant it ran under was ended")

var errStopping = palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping").
	WithRemedy("start it again with 'palyra up'")

// Bounds on the calls that hold memory here, waiting or running, over all and
// for each principal: one agent must not take the place of the others.
const (
	maxInFlight  = 4096
	maxEach      = 256
	maxEachBytes = 64 << 20 // of arguments
)

// Calls starts calls, keeps them going without their client, and finds them
// again.
type Calls struct {
	gate     *gate.Gate
	ledger   *Ledger
	sessions *Sessions
	now      func() time.Time
	log      *slog.Logger
	ended    func(context.Context, palyra.ID) bool
	rest     time.Duration // of a stranded call

	ctx  context.Context // ends when the daemon stops
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu     sync.Mutex // guards the maps and flights' watchers; never held across a call
	byID   map[palyra.ID]*flight
	byKey  map[flightKey]*flight
	leases map[palyra.ID]map[palyra.ID]bool // lease → calls running under it
	left   map[palyra.ID]bool               // open approvals of an earlier daemon
	held   map[palyra.Principal]holding
}

type flightKey struct {
	session palyra.ID
	key     string
}

// holding is what a principal's calls take up.
type holding struct {
	calls int
	bytes int64
}

// hold books a flight's share, or gives it back with sign -1. The lock is held.
func (c *Calls) hold(f *flight, sign int) {
	h := c.held[f.owner]
	h.calls += sign
	h.bytes += int64(sign) * f.size
	if h.calls <= 0 {
		delete(c.held, f.owner)
		return
	}
	c.held[f.owner] = h
}

// flight is a call under way.
type flight struct {
	id       palyra.ID
	size     int64 // of its arguments
	key      flightKey
	owner    palyra.Principal
	input    palyra.Digest
	tool     string
	place    string
	lease    palyra.ID
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when outcome and err are set
	outcome  palyra.Outcome
	err      error
	events   []watched
	watchers map[*watcher]bool
}

type watched struct {
	call  palyra.Call
	event palyra.Event
}

// watcher hears a flight's events in order, on its caller's goroutine.
type watcher struct {
	wake chan struct{}
	next int
}

// CallsConfig wires Calls.
type CallsConfig struct {
	Gate     *gate.Gate
	Ledger   *Ledger
	Sessions *Sessions
	Now      func() time.Time
	Log      *slog.Logger
	// LeaseEnded reports whether a lease was revoked, expired or closed; not
	// whether it is spent. Nil: none ever is.
	LeaseEnded func(context.Context, palyra.ID) bool
}

// NewCalls returns Calls. Recover must run before the first Call.
func NewCalls(c CallsConfig) (*Calls, error) {
	if c.Gate == nil || c.Ledger == nil || c.Sessions == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("run: calls: incomplete config")
	}
	if c.LeaseEnded == nil {
		c.LeaseEnded = func(context.Context, palyra.ID) bool { return false }
	}
	ctx, stop := context.WithCancelCause(context.Background())
	return &Calls{
		ended: c.LeaseEnded, rest: strandedFor,
		gate: c.Gate, ledger: c.Ledger, sessions: c.Sessions, now: c.Now, log: c.Log, ctx: ctx, stop: stop,
		byID: map[palyra.ID]*flight{}, byKey: map[flightKey]*flight{}, leases: map[palyra.ID]map[palyra.ID]bool{},
		left: map[palyra.ID]bool{}, held: map[palyra.Principal]holding{},
	}, nil
}

// Call takes a proposal through the gate and waits for its outcome. watch, if
// not nil, hears every event after it is durable, on this goroutine. When ctx
// ends Call returns its error and the call goes on; only Cancel stops it.
func (c *Calls) Call(ctx context.Context, p palyra.Proposal, watch func(*palyra.Call, palyra.Event)) (palyra.Outcome, error) {
	session, err := c.sessions.Resolve(ctx, p)
	if err != nil {
		return palyra.Outcome{}, err
	}
	p.Session, p.Labels = session.ID, session.Labels
	f, err := c.start(p)
	if err != nil {
		return palyra.Outcome{}, err
	}
	return c.follow(ctx, f, watch)
}

const maxKey = 256

// start begins a flight, or finds the one that holds the key. A flight holds
// its key until its call has ended in the ledger, so that a repeat meets either
// the flight or the outcome, never neither.
func (c *Calls) start(p palyra.Proposal) (*flight, error) {
	if len(p.Key) > maxKey || !plain(p.Key) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bad idempotency key").
			WithRemedy("use at most %d printable characters", maxKey)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.byKey[flightKey{p.Session, p.Key}]; f != nil && p.Key != "" {
		return f, sameCall(f.tool, f.place, f.input, p)
	}
	if err := c.admissible(p); err != nil {
		return nil, err
	}
	f := c.fly(palyra.ID(ulid.New(c.now())), p)
	c.launch(f, func(ctx context.Context, watch gate.Watcher) (palyra.Outcome, error) {
		if p.Key != "" {
			if out, found, err := c.earlier(ctx, p, watch); found || err != nil {
				return out, err
			}
		}
		return c.gate.Do(ctx, f.id, p, watch)
	})
	return f, nil
}

// earlier finds the call a key was used for: its outcome if it ended, else the
// call goes on here and is followed to its end.
func (c *Calls) earlier(ctx context.Context, p palyra.Proposal, watch gate.Watcher) (palyra.Outcome, bool, error) {
	for {
		call, input, err := c.ledger.byKey(ctx, p.Session, p.Key)
		if err != nil || call == nil {
			return palyra.Outcome{}, false, err
		}
		if err := sameCall(call.Proposal.Tool, call.Proposal.Workspace, input, p); err != nil {
			return palyra.Outcome{}, true, err
		}
		if call.Outcome != nil {
			return *call.Outcome, true, nil
		}
		f, err := c.reopen(ctx, call)
		if err != nil {
			return palyra.Outcome{}, true, err
		}
		if f == nil { // its end is on record now
			continue
		}
		out, err := c.follow(ctx, f, watch)
		if palyra.CodeOf(err) != palyra.Conflict { // Conflict: it ended as we looked; look again
			return out, true, err
		}
	}
}

// admissible says why no further call may start. The lock is held.
func (c *Calls) admissible(p palyra.Proposal) error {
	if c.ctx.Err() != nil {
		return errStopping
	}
	if len(c.byID) >= maxInFlight {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "%d calls are under way", len(c.byID)).
			WithRemedy("wait for some to end, or decide the pending approvals")
	}
	if h := c.held[p.Principal]; h.calls >= maxEach || h.bytes+int64(len(p.Arguments)) > maxEachBytes {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "%s has %d calls of %d bytes under way", p.Principal, h.calls, h.bytes).
			WithRemedy("wait for some to end, cancel them, or decide the pending approvals")
	}
	return nil
}

// sameCall refuses a key that is used again for something else.
func sameCall(tool, place string, input palyra.Digest, p palyra.Proposal) error {
	if tool == palyra.Clip(p.Tool, 512) && place == p.Workspace && input == palyra.SumBytes(p.Arguments) {
		return nil
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonIdempotencyReused, "this key was used for another call in the session").
		WithRemedy("use a fresh key for a new call")
}

// fly registers a flight. The lock is held.
func (c *Calls) fly(id palyra.ID, p palyra.Proposal) *flight {
	f := &flight{
		id: id, owner: p.Principal, tool: palyra.Clip(p.Tool, 512), input: palyra.SumBytes(p.Arguments),
		done: make(chan struct{}), watchers: map[*watcher]bool{}, size: int64(len(p.Arguments)), place: p.Workspace,
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
	f.cancel = cancel
	c.wg.Go(func() {
		defer cancel(nil)
		out, err := walk(ctx, func(call *palyra.Call, e palyra.Event) { c.publish(f, call, e) })
		if err != nil {
			err = fmt.Errorf("run: call %s: %w", f.id, err)
			c.strand(f.id)
		}
		c.land(f, out, err)
	})
}

// reopen finds or resumes the flight of a call that has not ended. One that was
// granted and whose end could not be recorded is given up: nil, no error.
func (c *Calls) reopen(ctx context.Context, call *palyra.Call) (*flight, error) {
	if f := c.resume(call); f != nil {
		return f, nil
	}
	if c.ctx.Err() != nil {
		return nil, errStopping
	}
	if err := c.giveUp(ctx, call); err != nil && palyra.CodeOf(err) != palyra.Conflict {
		return nil, err
	}
	return nil, nil
}

// strandedFor is how long a call whose record failed rests before it is tried
// again: a full disk does not empty at once.
const strandedFor = 5 * time.Second

// strand looks after a call whose walk ended with an error, as on a full disk:
// if the ledger has it as pending all the same, it goes on after a while, without
// a restart.
func (c *Calls) strand(id palyra.ID) {
	call, err := c.ledger.Get(context.WithoutCancel(c.ctx), id)
	if err != nil || call.State != palyra.Pending || c.ctx.Err() != nil {
		return
	}
	c.wg.Go(func() {
		rest := time.NewTimer(c.rest)
		defer rest.Stop()
		select {
		case <-c.ctx.Done():
		case <-rest.C:
			c.resume(call)
		}
	})
}

// land ends a flight and answers everyone who follows it.
func (c *Calls) land(f *flight, out palyra.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, f.id)
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

// publish keeps an event for every watcher, present and future, and notes the
// lease a call runs under. A lease that ended between the commit and this moment
// was told to nobody: it is looked at once more.
func (c *Calls) publish(f *flight, call *palyra.Call, e palyra.Event) {
	c.keep(f, call, e)
	if g, ok := e.(palyra.CallGranted); ok && g.Lease != "" && c.ended(c.ctx, g.Lease) {
		f.cancel(ErrLeaseEnded)
	}
}

func (c *Calls) keep(f *flight, call *palyra.Call, e palyra.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.events = append(f.events, watched{*call, e})
	for w := range f.watchers {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	if g, ok := e.(palyra.CallGranted); ok && g.Lease != "" {
		f.lease = g.Lease
		if c.leases[g.Lease] == nil {
			c.leases[g.Lease] = map[palyra.ID]bool{}
		}
		c.leases[g.Lease][f.id] = true
	}
}

// follow hands a flight's events to watch, from the first on, until it ends.
func (c *Calls) follow(ctx context.Context, f *flight, watch func(*palyra.Call, palyra.Event)) (palyra.Outcome, error) {
	w := &watcher{wake: make(chan struct{}, 1)}
	c.mu.Lock()
	f.watchers[w] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(f.watchers, w)
		c.mu.Unlock()
	}()
	for {
		c.deliver(f, w, watch)
		select {
		case <-ctx.Done():
			return palyra.Outcome{}, ctx.Err()
		case <-w.wake:
		case <-f.done:
			c.deliver(f, w, watch)
			return f.outcome, f.err
		}
	}
}

func (c *Calls) deliver(f *flight, w *watcher, watch func(*palyra.Call, palyra.Event)) {
	c.mu.Lock()
	events := f.events[w.next:]
	w.next = len(f.events)
	c.mu.Unlock()
	for i := range events {
		if watch != nil {
			watch(&events[i].call, events[i].event)
		}
	}
}

// Get returns a call as the ledger has it.
func (c *Calls) Get(ctx context.Context, id palyra.ID) (*palyra.Call, error) {
	return c.ledger.Get(ctx, id)
}

// List returns a page of calls, newest first, without what is large.
func (c *Calls) List(ctx context.Context, f Filter) (page []*palyra.Call, more bool, err error) {
	return c.ledger.List(ctx, f)
}

// Cancel stops a call: its open question is withdrawn, its run is ended.
func (c *Calls) Cancel(ctx context.Context, id palyra.ID) error {
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

// LeaseEnded stops what runs under a lease that was revoked or expired.
func (c *Calls) LeaseEnded(lease palyra.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// Stop ends every flight and waits. Open questions stay open.
func (c *Calls) Stop() {
	c.stop(gate.ErrStopping)
	c.wg.Wait()
}
