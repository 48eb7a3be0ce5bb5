// Package sandbox runs granted plans as native processes.
//
// Words: a Backend is the driver of a tier; a Job is a program resolved, checked and ready to start, and a Process
// one that did. The private directory of a run, called a room here too, has home and tmp, which are the program's
// own, and exe, which holds a copy of a script that the program could otherwise change. A capture is the delivered
// part of a stream: its head, its tail, and between them a line that says how much was left out.
//
// The common part of all native tiers is here, once, in Runner; the rest is in the backends, a leaf package each.
//
// Promises. Nothing starts without a grant for the call, nor when the call resolves to another plan than the one
// that was judged, nor when the bytes of the program are not those of the plan, nor when less would hold than the
// plan says. A program that the call could write runs from a copy that nothing of the run can change. The
// environment is the fixed one and what the plan lists; the descriptors are stdin, stdout and stderr. The end of
// the context ends the whole tree; output is counted to the byte and kept in bounded memory; no reader waits for a
// pipe that another process holds. The private directory is gone soon afterwards, and its removal reaches nothing
// outside it, whatever the program left there.
//
// A walled run, one with a file system and a network of its own, reaches others only through the
// Guard's gateway, which is open for as long as the run lasts and keeps the log of its flows.
//
// It does not confine anything itself, judge a plan, decide about hosts, give network to runs that
// are not walled, or know secrets (a plan that needs some is refused).
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
	"palyra/internal/dotenv"
	"palyra/internal/mask"
	"palyra/internal/sandbox/cage"
	"palyra/internal/stage"
)

// Sealed is a mechanism that Runner itself adds to a run: its program was a copy that nothing of
// the run could change.
const Sealed = "sealed_executable"

// Guarded is another: connections out of a walled run's network pass a guard.
const Guarded = "egress_guard"

// Config wires a Runner.
type Config struct {
	Backends []Backend                                              // at most one for a tier
	Stdin    func(palyra.Plan) ([]byte, error)                      // the bytes that plan.Stdin is the digest of
	Size     func(palyra.Plan) (rows, cols int)                     // of a terminal at first; nil or 0: 24 by 80
	Dir      string                                                 // parent of private directories; made and checked here
	Caches   string                                                 // below which mounts may be writable; empty: none may
	Own      palyra.Executable                                      // the program that Try runs; zero: nothing can be tried
	Agents   Agents                                                 // nil: no run can be an agent itself
	Started  func(palyra.CallID)                                    // is told of background processes that run; or nil
	Ports    Ports                                                  // nil: no run publishes ports
	Guard    EgressGuard                                            // nil: no run has any network
	Masks    *dotenv.Masks                                          // nil: no run has masked files
	Posture  func(palyra.Tier) (digest palyra.Digest, held bool)    // the tier's posture; nil: none was probed
	Changed  func(context.Context, *palyra.Call, []string)          // called with sealed paths that changed from outside during a run; or nil
	Left     func(context.Context, *palyra.Call, []palyra.Remnant)  // called with the remnants of runs; may be nil
	Swapped  func(context.Context, *palyra.Call, []string)          // called with inputs that changed during a run without copies; or nil
	List     List                                                   // lists the changes of runs; may be nil
	Cage     func(context.Context, palyra.Plan) (*cage.Cage, error) // draws those of skills' scripts; nil: there are none
	Probed   bool                                                   // refuse tiers that Posture does not know to hold
	Streams  Streams                                                // nil: nobody follows
	Mask     *mask.Masker                                           // masks what programs print; nil: nothing is
	Grace    time.Duration                                          // from SIGTERM to SIGKILL; 0: two seconds
	Now      func() time.Time
	Log      *slog.Logger // nil: nothing is logged
}

// Left is what a staged run left: all its changes, how many of its changes are never kept, and its
// workspace before and after, to be read while they are weighed.
type Left struct {
	Changes       []palyra.Change
	NeverKept     int64
	Replaced      int64 // bytes on disk of what the changes would replace
	Lasting       bool  // some of them cannot be undone later
	Before, After stage.Tree
}

// List makes the list of a run's changes, and keeps it, before any of them is the workspace's. An
// error means that the changes are not known.
type List func(ctx context.Context, c *palyra.Call, left Left) (palyra.Staged, error)

const defaultGrace = 2 * time.Second

// Runner implements the gate's runner for native tiers.
type Runner struct {
	Config
	backends map[palyra.Tier]Backend
	private  *privateDirs
	sums     *sums
	copies   budget

	mu     sync.Mutex
	closed bool
	live   map[string]bool // private directories in use, by name
	busy   sync.WaitGroup  // runs, and removals that outlive theirs
	sweeps chan struct{}   // one for each removal under way
}

// maxSweeps is the most removals under way. Above it a run waits for one to end, so that programs
// that fill their directories cannot outrun it.
const maxSweeps = 8

// New returns a Runner. It makes c.Dir if it is missing, and refuses one that is not the daemon's own.
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
	r := &Runner{
		Config: c, backends: map[palyra.Tier]Backend{}, sums: newSums(c.Now), live: map[string]bool{},
		sweeps: make(chan struct{}, maxSweeps),
	}
	for _, b := range c.Backends {
		if r.backends[b.Tier()] != nil {
			return nil, fmt.Errorf("sandbox: new: tier %s has two backends", b.Tier())
		}
		r.backends[b.Tier()] = b
	}
	var err error
	if r.private, err = openPrivateDirs(c.Dir); err != nil {
		return nil, fmt.Errorf("sandbox: new: %w", err)
	}
	return r, nil
}

// Run implements the gate's runner: it runs the program in its tier and returns the result.
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

// Promise returns what would hold for a run in the tier with these limits, or an error with the
// reason why the tier cannot be used here.
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

// probed refuses a tier that is not known to hold, if the configuration demands that.
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

// ours adds the Runner's own mechanisms to those of a backend.
func (r *Runner) ours(b Backend, e palyra.Enforcement) palyra.Enforcement {
	e.Mechanisms = slices.Clone(e.Mechanisms)
	if walled(b) && r.Guard != nil {
		e.Mode = r.Guard.Mode()
		e.Mechanisms = append(e.Mechanisms, r.Guard.Mechanisms()...)
	}
	slices.Sort(e.Mechanisms)
	return e
}

// byUs are the mechanisms of a plan that Runner applies itself, as far as it can.
func (r *Runner) byUs() []string {
	if r.Masks == nil {
		return []string{Sealed}
	}
	return []string{Sealed, Masked}
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

// Recover ends and removes what an earlier daemon left behind: first processes that may still run,
// then private directories. A directory that cannot be removed is logged and left; a process that
// cannot be ended is an error, and no directory is then touched.
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
	names, err := r.private.list()
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

// Close waits for the runs that are under way and closes the backends. Later runs are refused.
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
	_ = os.Remove(r.Dir) // while it is still locked; it stays if a private directory could not be removed
	errs = append(errs, r.private.close())
	return errors.Join(errs...)
}

// enter counts a run, unless the runner is closed.
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

// discard removes the private directory of a run that is over, in the background: a tree of a
// million files delays nobody. Close waits for it, and an earlier end leaves it to Recover.
func (r *Runner) discard(name string) {
	r.sweeps <- struct{}{}
	r.busy.Go(func() { // within a counted run, so that Close cannot miss it
		defer func() { <-r.sweeps }()
		r.remove(name)
		r.use(name, false)
	})
}

// remove removes a private directory. A failure does not fail a call that ran: it is logged, and
// Recover tries again.
func (r *Runner) remove(name string) {
	if err := r.private.remove(name); err != nil {
		r.Log.Warn("a run's private directory could not be removed", "dir", name, "err", err)
	}
}
