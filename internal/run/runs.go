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
	"palyra/internal/run/budget"
	"palyra/internal/store"
	"palyra/internal/ulid"
)

// Bounds on runs that have not ended, and on what starts them.
const (
	maxRunsEach = 32  // of a principal
	maxRuns     = 256 // of all
	maxInput    = 1 << 20
	maxTitle    = 200
	maxProvider = 64
)

// Driver takes the turns of runs.
type Driver interface {
	// Accept understands the input of a run, or says why not: the run then fails with the error's reason. It must be
	// quick and change nothing: after a restart it is asked again.
	Accept(r palyra.Run, input []byte) (Accepted, error)
}

// Accepted is an input that was understood.
type Accepted struct {
	Title string // for people, when the client gave none
	Model string // that takes the turns, if one does
	// Listens says that input sent to the run while it goes on will be heard.
	Listens bool
	// Drive takes every turn of the run from the first, and proposes the same calls when it is driven again. A nil
	// return ends the run as done, an error as failed. It returns soon after ctx ends, and nothing of it goes on then.
	Drive func(ctx context.Context, l *Live) error
}

// RunsConfig wires Runs.
type RunsConfig struct {
	DB       *store.DB
	Journal  store.Recorder
	Calls    *Calls
	Sessions Sessions
	Driver   Driver
	Limits   palyra.Budget // what a run gets, and the most it can get
	Now      func() time.Time
	Log      *slog.Logger
	// Pace is asked before each call of a run; where it may not be proposed yet,
	// the run waits as long as it says. Nil: there is no limit.
	Pace func(run palyra.RunID) (after time.Duration, ok bool)
}

// Runs starts runs, keeps them going without their client and after a restart, and tells them again.
type Runs struct {
	RunsConfig
	tape  *tape
	rest  time.Duration // between tries of a record that could not be kept
	grace time.Duration // for the calls of a run that ends
	each  int64         // runs of a principal that have not ended, at most
	all   int64         // of everybody

	ctx  context.Context // ends when the daemon stops
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu   sync.Mutex // guards live; a leaf lock
	live map[palyra.RunID]*Live
}

// NewRuns returns Runs. Recover must run before the first Start, and after that of Calls.
func NewRuns(c RunsConfig) (*Runs, error) {
	if c.DB == nil || c.Journal == nil || c.Calls == nil || c.Sessions == nil || c.Driver == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("run: runs: incomplete config")
	}
	if b := c.Limits; b.Calls <= 0 || b.WallMS <= 0 || b.OutputBytes <= 0 || b.Parallel <= 0 {
		return nil, errors.New("run: runs: a limit is missing")
	}
	ctx, stop := context.WithCancelCause(context.Background())
	return &Runs{
		RunsConfig: c, tape: c.Calls.ledger.tape, rest: strandedFor, grace: graceOfCalls, each: maxRunsEach, all: maxRuns, ctx: ctx, stop: stop,
		live: map[palyra.RunID]*Live{},
	}, nil
}

// StartRequest asks for a run. Principal, Owner, PeerUID and Door come from the
// credential; nothing else is trusted.
type StartRequest struct {
	Principal palyra.Principal
	Owner     palyra.Principal
	PeerUID   int64
	Surface   palyra.Surface
	Session   palyra.SessionID // an id or a name; empty: the default one
	Workspace string
	Key       string // a repeat with the same key returns the first run
	Provider  string
	Title     string
	Budget    palyra.Budget
	NoWait    bool
	Within    []string // the only workspaces the credential reaches
	Input     []byte   // what drives it

	Credential string // what it is started with
}

// reach is how far the credential of the request reaches.
func (q StartRequest) reach() palyra.Reach {
	return palyra.Reach{Principal: q.Principal, Credential: q.Credential, Within: q.Within}
}

// Start puts a run on record and begins it. The run goes on without its caller.
func (r *Runs) Start(ctx context.Context, q StartRequest) (palyra.Run, error) {
	if err := q.check(); err != nil {
		return palyra.Run{}, err
	}
	if r.ctx.Err() != nil {
		return palyra.Run{}, errStopping
	}
	if run, found, err := r.repeated(ctx, q); found || err != nil {
		return run, err
	}
	session, err := r.Sessions.Resolve(ctx, palyra.Proposal{Proposer: palyra.Proposer{
		Principal: q.Principal, Surface: q.Surface,
		Session: q.Session, Within: q.Within,
	}, Workspace: q.Workspace})
	if err != nil {
		return palyra.Run{}, err
	}
	now := r.Now().UTC()
	run := palyra.Run{
		ID: palyra.RunID(ulid.New(now)), Key: q.Key, Session: session.ID, Principal: q.Principal, Owner: q.Owner, PeerUID: q.PeerUID,
		Surface:   q.Surface,
		Workspace: q.Workspace, Provider: q.Provider, Title: palyra.Clip(q.Title, maxTitle), Input: palyra.SumBytes(q.Input), NoWait: q.NoWait,
		State: palyra.RunPending, Budget: budget.Lower(q.Budget, r.Limits), CreatedAt: now, Within: q.Within, Credential: q.Credential,
	}
	fresh := true
	err = r.DB.Write(ctx, "run.started", func(tx *store.Tx) error {
		first, found, err := byRunKey(tx, q)
		if found || err != nil { // another one with the key came first
			run, fresh = first, false
			return err
		}
		return r.insert(tx, run, q.Input)
	})
	if err != nil {
		return palyra.Run{}, fmt.Errorf("run: start: %w", err)
	}
	if fresh {
		r.drive(run, q.Input)
	}
	return run, nil
}

// check refuses what cannot be a run.
func (q StartRequest) check() error {
	bad := func(what string, args ...any) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, what, args...).WithRemedy("see 'palyra run --help'")
	}
	switch b := q.Budget; {
	case q.Principal == "" || q.Surface == "":
		return bad("a run needs a principal and a door")
	case len(q.Key) > maxKey || !plain(q.Key):
		return bad("bad idempotency key")
	case q.Provider == "" || len(q.Provider) > maxProvider || !plain(q.Provider):
		return bad("bad provider")
	case !plain(q.Title):
		return bad("bad title")
	case b.Calls < 0 || b.WallMS < 0 || b.OutputBytes < 0 || b.Parallel < 0:
		return bad("a budget is negative")
	case len(q.Input) > maxInput:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "the input has %d bytes, at most %d", len(q.Input), maxInput).
			WithRemedy("send less, or start several runs")
	}
	return nil
}

// Get returns a run as it stands.
func (r *Runs) Get(ctx context.Context, id palyra.RunID) (run palyra.Run, err error) {
	err = r.DB.Read(ctx, func(tx *store.Tx) error {
		run, _, err = loadRun(tx, id)
		return err
	})
	return run, err
}

// Running returns how many runs are under way here.
func (r *Runs) Running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)
}

// Recover goes on with the runs that an earlier daemon left. Each is driven again from its beginning and meets the
// calls it made by their keys: what finished answers at once, what waits is waited for, what may have run stays
// unknown. A run that cannot be driven any more fails as interrupted.
func (r *Runs) Recover(ctx context.Context) error {
	var open []openRun
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		open, err = openRuns(tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("run: recover runs: %w", err)
	}
	for _, o := range open {
		r.drive(o.run, o.input)
	}
	return nil
}

// Stop ends the driving of every run and waits. Nothing of it is put on record:
// the runs go on at the next start. It comes before the Stop of Calls.
func (r *Runs) Stop() {
	r.mu.Lock()
	r.stop(gate.ErrStopping)
	r.mu.Unlock() // nothing more is driven from here on
	r.wg.Wait()
}
