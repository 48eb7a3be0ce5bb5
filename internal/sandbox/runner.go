// Package sandbox runs granted plans as native processes.
//
// Words: a Backend is the driver of a tier; a Job is a program resolved, checked
// and ready to start, and a Process one that did. A room is the private directory
// of one run: home and tmp below it are the program's own, exe holds a copy of a
// script that the program could otherwise change. A capture is what is delivered
// of a stream: its head, its tail, and between them a line that says how much was
// left out.
//
// What is the same for every native tier is here, once, in Runner; what differs is
// in the backends, a leaf package each.
//
// Promises. Nothing starts without a grant for the call, nor when the call
// resolves to another plan than the one that was judged, nor when the bytes of
// the program are not those of the plan, nor when less would hold than the plan
// says. A program that the call could write runs from a copy that nothing of the
// run can change. The environment is the fixed one and what the plan lists; the
// descriptors are stdin, stdout and stderr. The end of the context ends the whole
// tree; output is counted to the byte and kept in bounded memory; no reader waits
// for a pipe that somebody else holds. The room is gone soon afterwards, and its
// removal reaches nothing outside it, whatever the program left there.
//
// A walled run, one with a file system and a network of its own, reaches others
// only through the Guard's gateway, which is open for as long as the run lasts and
// keeps the log of its flows.
//
// It does not confine anything itself, judge a plan, decide about hosts, give
// network to runs that are not walled, or know secrets (a plan that needs some is
// refused).
//
// Its words are those of docs/words.md.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/stage"
)

// Sealed is the mechanism that Runner itself adds to a run: its program was a
// copy that nothing of the run could change.
const Sealed = "sealed_executable"

// Guarded is another: what leaves a walled run's network passes a guard.
const Guarded = "egress_guard"

// Config wires a Runner.
type Config struct {
	Backends []Backend                                             // at most one for a tier
	Stdin    func(palyra.Plan) ([]byte, error)                     // the bytes that plan.Stdin is the digest of
	Size     func(palyra.Plan) (rows, cols int)                    // of a terminal at first; nil or 0: 24 by 80
	Dir      string                                                // where rooms are; made and checked here
	Caches   string                                                // below which mounts may be written; empty: none may
	Own      palyra.Executable                                     // the program that Try runs; the zero one: nothing can be tried
	Agents   Agents                                                // nil: no run can be an agent itself
	Guard    EgressGuard                                           // nil: no run has any network
	Posture  func(palyra.Tier) (digest palyra.Digest, held bool)   // what probing the tier found; nil: nobody probed
	Changed  func(context.Context, *palyra.Call, []string)         // hears of sealed paths that were changed from outside during a run; nil: nobody does
	Left     func(context.Context, *palyra.Call, []palyra.Remnant) // hears of what runs left behind; nil: nobody does
	Swapped  func(context.Context, *palyra.Call, []string)         // hears of inputs that were changed while a run without copies of its own was under way; nil: nobody does
	List     List                                                  // lists what runs changed; nil: nobody does
	Probed   bool                                                  // refuse tiers that Posture does not know to hold
	Streams  Streams                                               // nil: nobody follows
	Grace    time.Duration                                         // from SIGTERM to SIGKILL; 0: two seconds
	Now      func() time.Time
	Log      *slog.Logger // nil: nothing is logged
}

// Left is what a staged run left: all that it changed, how many times it did what is never kept, and its workspace before
// and after, to be read while that is weighed.
type Left struct {
	Changes       []palyra.Change
	NeverKept     int64
	Before, After stage.Tree
}

// List makes the list of what a run changed, and keeps it, before anything of that is the
// workspace's. An error says that it cannot be told what the run did.
type List func(ctx context.Context, c *palyra.Call, left Left) (palyra.Staged, error)

const defaultGrace = 2 * time.Second

// Runner implements the gate's runner for native tiers.
type Runner struct {
	Config
	backends map[palyra.Tier]Backend
	rooms    *privateDirs
	sums     *sums
	copies   budget

	mu     sync.Mutex
	closed bool
	live   map[string]bool // rooms in use, by name
	busy   sync.WaitGroup  // runs, and removals that outlive theirs
	sweeps chan struct{}   // one for each removal under way
}

// maxSweeps bounds the removals under way. Over it a run waits for one to end, so
// that programs that fill their rooms cannot outrun it.
const maxSweeps = 8

// New returns a Runner. It makes c.Dir when it is missing, and refuses one that
// is not the daemon's own.
func New(c Config) (*Runner, error) {
	if c.Stdin == nil || c.Dir == "" || c.Now == nil {
		return nil, errors.New("sandbox: new: a part is missing")
	}
	if c.Grace <= 0 {
		c.Grace = defaultGrace
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{Config: c, backends: map[palyra.Tier]Backend{}, sums: newSums(c.Now), live: map[string]bool{}, sweeps: make(chan struct{}, maxSweeps)}
	for _, b := range c.Backends {
		if r.backends[b.Tier()] != nil {
			return nil, fmt.Errorf("sandbox: new: tier %s has two backends", b.Tier())
		}
		r.backends[b.Tier()] = b
	}
	var err error
	if r.rooms, err = openPrivateDirs(c.Dir); err != nil {
		return nil, fmt.Errorf("sandbox: new: %w", err)
	}
	return r, nil
}

// Run implements the gate's runner: it runs the program in its tier and says what
// happened.
func (r *Runner) Run(ctx context.Context, start palyra.Launch, c *palyra.Call) palyra.Result {
	begun := r.Now()
	if !r.enter() {
		return r.refused(begun, c.ID, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping"))
	}
	defer r.busy.Done()
	b, err := r.check(ctx, start, c)
	if err != nil {
		return r.refused(begun, c.ID, err)
	}
	l := &runStart{Runner: r, backend: b, call: c.ID, from: c, plan: start.Plan(), weigher: start.Weigh}
	defer l.clean()
	if err := l.prepare(ctx); err != nil {
		return r.refused(begun, c.ID, l.plan.Stopped(ctx, err))
	}
	return l.run(ctx)
}

// Promise says what would hold for a run in the tier with these limits, or why
// the tier cannot be used here.
func (r *Runner) Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	b, err := r.backend(tier)
	if err == nil {
		err = workable(l)
	}
	if err != nil {
		return palyra.Enforcement{}, err
	}
	e, err := b.Probe(ctx, l)
	if err == nil {
		err = r.probed(tier)
	}
	if err != nil {
		return palyra.Enforcement{}, err
	}
	return r.ours(b, e), nil
}

// probed refuses a tier that is not known to hold, where that is demanded.
func (r *Runner) probed(t palyra.Tier) error {
	if !r.Probed {
		return nil
	}
	if r.Posture != nil {
		if _, held := r.Posture(t); held {
			return nil
		}
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonPosture, "tier %s is not known to hold on this machine since it started", t).
		WithRemedy("run 'palyra sandbox doctor' and mend what it finds, or set process.posture = \"off\"")
}

// ours adds what the Runner itself sees to, on top of what a backend does.
func (r *Runner) ours(b Backend, e palyra.Enforcement) palyra.Enforcement {
	e.Mechanisms = slices.Clone(e.Mechanisms)
	if walled(b) && r.Guard != nil {
		e.Mode = r.Guard.Mode()
		e.Mechanisms = append(e.Mechanisms, r.Guard.Mechanisms()...)
	}
	slices.Sort(e.Mechanisms)
	return e
}

func walled(b Backend) bool {
	w, ok := b.(Walled)
	return ok && w.Room()
}

func (r *Runner) backend(tier palyra.Tier) (Backend, error) {
	if b := r.backends[tier]; b != nil {
		return b, nil
	}
	return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "this version has no tier %s", palyra.Clip(string(tier), 16)).
		WithRemedy("leave the tier out, or ask for tier b")
}

// Recover ends and removes what an earlier daemon left behind: first what may
// still run, then the rooms. A room that resists is logged and left; processes
// that do are an error, and no room is then touched.
func (r *Runner) Recover(ctx context.Context) error {
	var errs []error
	for _, b := range r.Backends {
		if err := b.Recover(ctx); err != nil {
			errs = append(errs, fmt.Errorf("tier %s: %w", b.Tier(), err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sandbox: recover: %w", err)
	}
	names, err := r.rooms.list()
	if err != nil {
		return fmt.Errorf("sandbox: recover: %w", err)
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return fmt.Errorf("sandbox: recover: %w", ctx.Err())
		}
		if !r.inUse(name) {
			r.remove(name)
		}
	}
	return nil
}

// Close waits for the runs that are under way and gives the backends back. Later
// runs are refused.
func (r *Runner) Close() error {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	r.busy.Wait()
	if again {
		return nil
	}
	var errs []error
	for _, b := range r.Backends {
		errs = append(errs, b.Close())
	}
	_ = os.Remove(r.Dir) // while it is still locked; it stays where a room could not be removed
	errs = append(errs, r.rooms.close())
	return errors.Join(errs...)
}

// enter counts a run in, unless the runner is closed.
func (r *Runner) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.busy.Add(1)
	}
	return !r.closed
}

func (r *Runner) inUse(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[name]
}

func (r *Runner) use(name string, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on {
		r.live[name] = true
	} else {
		delete(r.live, name)
	}
}

// discard removes the room of a run that is over, beside the answer: a tree of a
// million files holds nobody up. Close waits for it, and an earlier end leaves it
// to Recover.
func (r *Runner) discard(name string) {
	r.sweeps <- struct{}{}
	r.busy.Go(func() { // within a run that is counted, so Close cannot miss it
		defer func() { <-r.sweeps }()
		r.remove(name)
		r.use(name, false)
	})
}

// remove takes a room away. What cannot be removed is no reason to fail a call
// that ran: it is logged, and Recover tries again.
func (r *Runner) remove(name string) {
	if err := r.rooms.remove(name); err != nil {
		r.Log.Warn("a run's private directory could not be removed", "dir", name, "err", err)
	}
}
