package run

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"palyra"
	"palyra/internal/gate"
	"palyra/internal/run/background"
	"palyra/internal/run/budget"
	"palyra/internal/run/tapeline"
	"palyra/internal/ulid"
)

// ErrCancelled is the cause of a call's context when somebody cancelled it.
var ErrCancelled = palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "the call was cancelled")

// ErrLeaseEnded is the cause when the lease a running call depends on ended.
var ErrLeaseEnded = palyra.Errorf(palyra.Expired, palyra.ReasonGrantRevoked, "the lease it ran under was ended").
	WithRemedy("propose the call again to have it asked anew")

var errStopping = palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping").
	WithRemedy("start it again with 'palyra up'")

// Bounds on the calls that hold memory here, waiting or running, over all and
// for each payer: one agent, or one room, must not take the place of the others.
const (
	maxInFlight  = 4096
	maxEach      = 256
	maxEachBytes = 64 << 20 // of arguments
)

// Calls starts calls, keeps them going without their client, and finds them again.
type Calls struct {
	*background.Processes // of those that run in the background
	gate                  *gate.Gate
	ledger                *Ledger
	sessions              Sessions
	now                   func() time.Time
	log                   *slog.Logger
	lease                 func(context.Context, palyra.LeaseID) (palyra.Lease, error)
	cutOff                func(context.Context, *palyra.Call) palyra.Result
	settled               func(*palyra.Call)
	isHeld                func(context.Context, palyra.CallID) error
	rest                  time.Duration // of a stranded call

	ctx  context.Context // ends when the daemon stops
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu     sync.Mutex // guards the maps and flights' watchers; never held across a call
	byID   map[palyra.CallID]*flight
	byKey  map[flightKey]*flight
	leases map[palyra.LeaseID]map[palyra.CallID]bool // lease → calls running under it
	left   map[palyra.ApprovalID]bool                // open approvals of an earlier daemon
	held   map[string]holding                        // by payer
	shown  int64                                     // bytes of output that all flights keep
	counts budget.Book
}

type flightKey struct {
	session palyra.SessionID
	key     string
}

// CallsConfig wires Calls.
type CallsConfig struct {
	Gate     *gate.Gate
	Ledger   *Ledger
	Sessions Sessions
	Now      func() time.Time
	Log      *slog.Logger
	// Lease finds a lease, to see whether it has ended. Nil: none ever does.
	Lease func(context.Context, palyra.LeaseID) (palyra.Lease, error)
	// CutOff is told of a call that an earlier daemon died in, before it is on record
	// as unknown: what it left behind is taken away. It says what became of the call's
	// changes, or refuses to for now. Nil: nothing is, and nobody knows.
	CutOff  func(context.Context, *palyra.Call) palyra.Result
	Settled func(*palyra.Call) // is told of a call once it is on record what became of its changes
	// Held says why what is kept of a call is not what the journal says of it: it is
	// then given to nobody, and not gone on with. Nil: nobody is asked.
	Held func(context.Context, palyra.CallID) error
}

// NewCalls returns Calls. Recover must run before the first Call.
func NewCalls(c CallsConfig) (*Calls, error) {
	if c.Gate == nil || c.Ledger == nil || c.Sessions == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("run: calls: incomplete config")
	}
	if c.Lease == nil {
		c.Lease = func(_ context.Context, id palyra.LeaseID) (palyra.Lease, error) { return palyra.Lease{ID: id}, nil }
	}
	ctx, stop := context.WithCancelCause(context.Background())
	if c.CutOff == nil {
		c.CutOff = func(context.Context, *palyra.Call) (none palyra.Result) { return none }
	}
	if c.Held == nil {
		c.Held = func(context.Context, palyra.CallID) error { return nil }
	}
	calls := &Calls{
		Processes: background.New(), isHeld: c.Held, cutOff: c.CutOff, settled: c.Settled, lease: c.Lease, rest: strandedFor,
		gate: c.Gate, ledger: c.Ledger, sessions: c.Sessions, now: c.Now, log: c.Log, ctx: ctx, stop: stop,
		byID: map[palyra.CallID]*flight{}, byKey: map[flightKey]*flight{}, leases: map[palyra.LeaseID]map[palyra.CallID]bool{},
		left: map[palyra.ApprovalID]bool{}, held: map[string]holding{},
	}
	c.Ledger.printed, c.Ledger.fed = calls.tapeOutput, calls.fedLine
	return calls, nil
}

// Call takes a proposal through the gate and waits for its outcome. w hears, on this goroutine and in order, every
// event after it is durable and what the call prints while it runs. When ctx ends Call returns its error and the
// call goes on; only Cancel stops it.
func (c *Calls) Call(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	f, err := c.startInSession(ctx, p)
	if err != nil {
		return palyra.Outcome{}, err
	}
	return c.follow(ctx, f, w, true)
}

// CallTied is Call for a caller without whom the call has no use: when ctx ends, it is cancelled.
func (c *Calls) CallTied(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	f, err := c.startInSession(ctx, p)
	if err != nil {
		return palyra.Outcome{}, err
	}
	out, err := c.follow(ctx, f, w, true)
	if ctx.Err() != nil && c.ctx.Err() == nil { // a daemon that stops ends it in its own way
		f.cancel(ErrCancelled)
	}
	return out, err
}

// startInSession starts a call in the session that it belongs to.
func (c *Calls) startInSession(ctx context.Context, p palyra.Proposal) (*flight, error) {
	session, err := c.sessions.Resolve(ctx, p)
	if err != nil {
		return nil, err
	}
	p.Session, p.Labels = session.ID, nil // the gate finds them, each time it judges
	m := c.ledger.mask
	p.Key, p.Tool = m.String(p.Key), palyra.ToolName(m.String(string(p.Tool))) // they are on every record, and neither runs
	return c.start(p)
}

// Check is Call for a caller that runs what it asks about by its own tools: the
// outcome says whether it may, and nothing runs here.
func (c *Calls) Check(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	p.Check = true
	return c.Call(ctx, p, w)
}

// Observe judges a call that its caller runs whatever the answer would be: nobody is asked.
func (c *Calls) Observe(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	p.Observe = true
	return c.Call(ctx, p, w)
}

const maxKey = 256

// start begins a flight, or finds the one that holds the key. A flight holds its key until its call has ended in
// the ledger, so that a repeat meets either the flight or the outcome, never neither.
func (c *Calls) start(p palyra.Proposal) (*flight, error) {
	if len(p.Key) > maxKey || !plain(p.Key) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bad idempotency key").
			WithRemedy("use at most %d printable characters", maxKey)
	}
	if p.Run == "" && tapeline.IsCallKey(p.Key) { // or a run would find its own calls made by somebody else
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "idempotency keys of this form are those of runs").
			WithRemedy("use a key of your own that is not an id with two numbers after it")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.byKey[flightKey{p.Session, p.Key}]; f != nil && p.Key != "" {
		return f, f.like.same(p)
	}
	if err := c.admissible(p); err != nil {
		return nil, err
	}
	f := c.fly(palyra.CallID(ulid.New(c.now())), p, palyra.SumBytes(p.Arguments))
	walk := c.gate.Check
	switch {
	case p.Observe:
		walk = c.gate.Observe
	case !p.Check:
		walk, f.feed = c.gate.Do, make(chan palyra.Feed, feedDepth)
	}
	c.launch(f, func(ctx context.Context, watch gate.Watcher) (palyra.Outcome, error) {
		if p.Key != "" {
			if out, found, err := c.earlier(ctx, f, p, watch); found || err != nil {
				return out, err
			}
		}
		return walk(ctx, f.id, p, watch)
	})
	return f, nil
}

// earlier finds the call a key was used for: its outcome if it ended, else the
// call goes on here and is followed to its end, and f passes on what it prints.
func (c *Calls) earlier(ctx context.Context, f *flight, p palyra.Proposal, watch gate.Watcher) (palyra.Outcome, bool, error) {
	w := palyra.Watch{
		Event:   func(call *palyra.Call, e palyra.Event) { watch.Events(call, e) },
		Running: func(call *palyra.Call) { c.runsNow(f, call) }, Output: func(x palyra.Chunk) { c.show(f, x) },
	}
	for {
		call, err := c.ledger.byKey(ctx, p.Session, p.Key)
		if err != nil || call == nil {
			return palyra.Outcome{}, false, err
		}
		if err := c.isHeld(ctx, call.ID); err != nil { // before a changed record says that the key was another call's
			return palyra.Outcome{}, true, err
		}
		if err := requestOf(call.Proposal, call.Input).same(p); err != nil {
			return palyra.Outcome{}, true, err
		}
		if call.Outcome != nil {
			return *call.Outcome, true, nil
		}
		first, err := c.reopen(ctx, call)
		if err != nil {
			return palyra.Outcome{}, true, err
		}
		if first == nil { // its end is on record now
			continue
		}
		out, err := c.follow(ctx, first, w, true)
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
	if h := c.held[p.Payer()]; h.calls >= maxEach || h.bytes+int64(len(p.Arguments)) > maxEachBytes {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "%s has %d calls of %d bytes under way", p.Principal, h.calls, h.bytes).
			WithRemedy("wait for some to end, cancel them, or decide the pending approvals")
	}
	if p.Tool == palyra.ToolProcessStart && !p.Check {
		return c.Full(p.Payer())
	}
	return nil
}

// request is what a key stands for.
type request struct {
	tool, place string
	run         palyra.RunID
	input       palyra.Digest
	check       bool // it runs nothing, so it answers for no call that does
	observe     bool // it asks nobody, so it answers for no call that does
}

// requestOf is what a proposal asks for; input is the digest of its arguments as they were sent.
func requestOf(p palyra.Proposal, input palyra.Digest) request {
	return request{string(palyra.Clip(p.Tool, 512)), p.Workspace, p.Run, input, p.Check, p.Observe}
}

// same refuses a key that is used again for something else, or by something else: a run's calls are its own.
func (r request) same(p palyra.Proposal) error {
	if r == requestOf(p, palyra.SumBytes(p.Arguments)) {
		return nil
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonIdempotencyReused, "this key was used for another call in the session").
		WithRemedy("use a fresh key for a new call")
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

// strand looks after a call whose walk ended with an error, as on a full disk. If the ledger has it as pending all
// the same, it goes on after a while, without a restart. One that was granted has run or not, and nobody is left
// who knows: it is given up, and that is tried until it is on record, so that no call stays granted.
func (c *Calls) strand(id palyra.CallID) {
	call, err := c.ledger.Get(context.WithoutCancel(c.ctx), id)
	if err != nil || call.State.Ended() || c.ctx.Err() != nil {
		return
	}
	c.wg.Go(func() {
		rest := time.NewTimer(c.rest)
		defer rest.Stop()
		for {
			select {
			case <-c.ctx.Done(): // the next start finds it
				return
			case <-rest.C:
			}
			if call.State == palyra.Pending || heldBack(call) {
				c.resume(call)
				return
			}
			stale := *call // giving up moves it, also when that is not recorded
			err := c.giveUp(c.ctx, &stale)
			if err == nil || palyra.CodeOf(err) == palyra.Conflict {
				return
			}
			c.log.Error("the end of a call cannot be recorded", "call", id, "error", err)
			rest.Reset(c.rest)
		}
	})
}
