package bubble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/quarantine"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cage"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/reviews"
	"palyra/internal/sandbox/template"
)

// Backend is tier C on Linux.
type Backend struct {
	fleet  *cells.Fleet
	config Config
	no     *palyra.Error // why the tier cannot be used; nil: it can
	noUser *palyra.Error // why it cannot be used for users other than root

	last      atomic.Pointer[want] // of the last plain job
	unwatched atomic.Bool          // no room may watch files, because one could not be bounded
	host      hostLimits
	stages    staging
	layers    layers
	*reviews.Desk

	mu    sync.Mutex
	bwrap *bwrap.Program
	facts map[string]string
	bases map[string]*base         // of runs under way, by workspace and sealed names
	keeps map[chan struct{}]string // workspaces that changes of staged runs are put into now; closed when they are

	records map[string]bool // names of this backend's own records
	spares  chan *record

	pool      pool
	templates *template.Set
	looks     looks
	commits   commits
	users     users // of the quarantine
}

var _ interface {
	sandbox.Backend
	sandbox.Walled
} = (*Backend)(nil)

// New returns tier C as far as this host has it; Probe reports how far.
func New(c Config) (*Backend, error) {
	if c.Warm < 0 || c.WarmBytes < 0 || c.Tmp < 0 {
		return nil, errors.New("bubble: new: a negative number of cells or bytes")
	}
	relative := func(dir string) bool { return !filepath.IsAbs(dir) }
	if relative(c.Quarantine) || relative(c.Dir) || slices.ContainsFunc(c.Closed, relative) {
		return nil, errors.New("bubble: new: a directory is missing or not absolute")
	}
	c.Tmp = cmp.Or(c.Tmp, defaultTmp)
	c.WarmBytes = cmp.Or(c.WarmBytes, defaultWarmBytes)
	f, err := cells.NewFleet(cells.Config{
		Tier: palyra.TierC, Cell: c.Cell, Digest: c.Digest, Cgroup: c.Cgroup, StateID: c.StateID, Kind: "-c", Inside: true, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(c.Dir, 0o700), os.MkdirAll(c.Quarantine, 0o700)); err != nil {
		return nil, fmt.Errorf("bubble: new: %w", err)
	}
	if err := quarantine.Shut(c.Quarantine); err != nil {
		f.Log.Warn("not everything in quarantine could be closed", "err", err)
	}
	b := &Backend{
		fleet: f, config: c, bases: map[string]*base{}, keeps: map[chan struct{}]string{}, records: map[string]bool{},
		spares: make(chan *record, maxSpares),
	}
	b.templates = template.NewSet(template.Config{Fleet: f, Cell: func() *os.File { return f.Image }, Bubblewrap: b.current, Log: f.Log})
	b.pool.init(b, c.Warm, c.WarmBytes)
	b.Desk = &reviews.Desk{Store: b.agentStages(), Log: f.Log, Running: func(c palyra.CallID) bool { return b.layers.find(c) != nil }}
	b.stages.open(b) // what is held is settled also where nothing can run
	b.Why = b.stages.no
	if b.no = b.prepare(); b.no != nil {
		f.Log.Warn("tier C cannot be used", "reason", b.no.Reason, "why", b.no.Text, "remedy", b.no.Remedy, "err", b.no.Cause)
		return b, nil
	}
	b.pool.start()
	return b, nil
}

// prepare finds out once what the host permits, by making a room: for root, and for an ordinary
// user, who may be refused what root is given.
func (b *Backend) prepare() (no *palyra.Error) {
	if no = b.fleet.Prepare(); no != nil {
		return no
	}
	w, no := bwrap.Find(b.config.Bwrap)
	if no != nil {
		return no
	}
	b.use(w)
	gid := int64(os.Getegid())
	if b.fleet.UID != 0 {
		return w.Try(context.Background(), b.fleet.UID, gid)
	}
	var both sync.WaitGroup
	both.Go(func() { no = w.Try(context.Background(), 0, 0) })
	both.Go(func() { b.noUser = w.Try(context.Background(), bwrap.Nobody, bwrap.Nobody) })
	both.Wait()
	if b.noUser != nil && no == nil {
		b.fleet.Log.Warn("tier C cannot be used for others than root", "why", b.noUser.Text, "remedy", b.noUser.Remedy, "err", b.noUser.Cause)
	}
	return no
}

// use makes w the bubblewrap of later rooms.
func (b *Backend) use(w *bwrap.Program) {
	var kernel unix.Utsname
	_ = unix.Uname(&kernel) // cannot fail
	b.bwrap = w
	if b.config.Places != nil {
		w.Places = b.config.Places
	}
	b.facts = map[string]string{
		"bwrap_path": w.Path, "bwrap_version": w.Version, "bwrap_digest": w.Digest, "cell_digest": b.config.Digest,
		"landlock_abi": fmt.Sprint(b.fleet.Host.ABI), "kernel": unix.ByteSliceToString(kernel.Release[:]),
	}
}

// current is the bubblewrap of later rooms. One that was replaced since, most likely by an update, is checked anew.
func (b *Backend) current() (*bwrap.Program, *palyra.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.bwrap.Changed() {
		return b.bwrap, nil
	}
	w, no := bwrap.Find(b.config.Bwrap)
	if no != nil {
		return nil, no
	}
	b.fleet.Log.Warn("bubblewrap was replaced", "version", w.Version, "digest", w.Digest, "was", b.bwrap.Digest)
	b.use(w) // the old one stays open: another build may be about to run it
	return w, nil
}

// Facts returns what the tier rests on here, for posture.
func (b *Backend) Facts() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.facts)
}

// Executor implements sandbox.Backend.
func (*Backend) Executor() string { return executor }

// Tier implements sandbox.Backend.
func (*Backend) Tier() palyra.Tier { return palyra.TierC }

// Room implements sandbox.Walled.
func (*Backend) Room() bool { return true }

// Probe implements sandbox.Backend. It does not know the run's user; Exit has that.
func (b *Backend) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	if b.no != nil {
		return palyra.Enforcement{}, b.no
	}
	return b.enforcement(b.fleet.Groups, b.fleet.UID), nil
}

// Start implements sandbox.Backend. The context bounds only the starting; once the order to run is given, Start
// returns a Process, even one that is already being stopped, because something may have run.
func (b *Backend) Start(ctx context.Context, j sandbox.Job) (sandbox.Process, error) {
	defer j.CloseFiles()
	if b.no != nil {
		return nil, b.no
	}
	if !b.fleet.Enter() {
		return nil, b.fleet.Stopping()
	}
	defer b.fleet.Leave()
	if err := b.check(j); err != nil {
		return nil, err
	}
	j.Limits = cells.WithDefaults(j.Limits)
	w := b.wantLike(j)
	for built := 0; ; {
		k, err := b.pool.take(ctx, w)
		if err != nil {
			return nil, err
		}
		if k == nil {
			built++
			if k, err = b.build(ctx, w); err != nil {
				return nil, err
			}
		} else if err = k.fresh(ctx); err != nil {
			k.discard()
			continue // the next one, or a new one
		}
		p, err := b.launch(ctx, k, j)
		if len(w.moves) == 0 && w.layer == "" { // whole copies are outdated too soon
			b.pool.used(w, endOf(p))
		}
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, errAgain): // the room could not be used; the next one, or a new one
		case errors.Is(err, template.ErrChanged) && built < triesToBuild:
		default:
			return nil, err
		}
	}
}

// endOf is closed when a process has ended; nil: there is none.
func endOf(p *cells.Process) <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.Done()
}

// errAgain means that a warm cell was dead or stale, and nothing was asked of it.
var errAgain = errors.New("bubble: the cell is of no use any more")

// launch gives a job to a keeper.
func (b *Backend) launch(ctx context.Context, k *keeper, j sandbox.Job) (*cells.Process, error) {
	e := b.applied(k, j)
	if err := sandbox.CheckPromise(e, j.Expect); err != nil {
		b.pool.giveBack(k)
		return nil, err
	}
	s, err := b.spec(j, k)
	if err == nil {
		err = k.Limit(k.allowed(j.Limits), 0)
	}
	if err == nil {
		err = k.charge(j.Payer)
	}
	if err == nil {
		k.rule = j.Weigh
		err = k.begin(ctx, j.Call)
	}
	if err == nil {
		err = k.cover(ctx, j)
	}
	if err == nil && j.Before != nil {
		err = j.Before(ctx)
	}
	if err == nil {
		err = k.handDoors(j)
	}
	if err != nil {
		k.discard()
		return nil, err
	}
	k.watch(j)
	if k.want.cage != nil {
		var covered []string
		for _, c := range j.Covers {
			covered = append(covered, c.Path)
		}
		k.seen = cage.Observe(k.want.cage, k.want.room.Workspace, k.view, covered)
	}
	covered := j
	covered.Sealed, covered.Covers = nil, nil // they lie at their paths
	p, err := k.Run(ctx, s, covered, cells.Terms{Holds: e, Explain: b.explain, After: k.finish, Account: k.account})
	if err != nil {
		return nil, b.notRun(k, j, err)
	}
	k.follow(s.Watch, p)
	k.boundStage(p)
	return p, nil
}

// notRun handles a keeper that did not take its job.
func (b *Backend) notRun(k *keeper, j sandbox.Job, err error) error {
	k.forget()
	if errors.Is(err, cells.ErrStale) && len(j.Doors) == 0 { // no doors were handed over
		return errAgain
	}
	return err
}

// Close implements sandbox.Backend: it ends idle cells and whatever still runs, and waits for both.
func (b *Backend) Close() error {
	err := errors.Join(b.fleet.Close(func() { b.pool.drain(); _ = b.templates.Close() }), b.dropSpares(), b.stages.close())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bwrap != nil {
		b.bwrap.Close()
		b.bwrap = nil
	}
	return err
}
