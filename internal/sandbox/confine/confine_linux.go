package confine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
)

// Backend is tier B on Linux.
type Backend struct {
	log   *slog.Logger
	uid   int64
	host  host
	image *os.File
	cg    cgroups
	holds palyra.Enforcement // for every run, with cg
	no    *palyra.Error      // why the tier cannot be used; nil: it can
	logs  *os.File           // what cells complain into
	name  string             // of cgroup directories, without the number
	state uint32             // upper half of every mark

	mu      sync.Mutex
	closed  bool
	next    uint32 // lower half of the next mark
	live    map[uint64]bool
	running map[*process]bool
	filters map[subject][]byte
	counted map[int64]count // tasks, by uid
	usual   palyra.Limits   // of the last run that set some: likely the next one's too

	pool pool
	work sync.WaitGroup // goroutines of keepers, processes and the log
}

var stateID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// New returns tier B as far as this host has it; Probe says how far. It makes the
// process a subreaper, so that what a lost cell leaves behind can be found and
// reaped.
func New(c Config) (*Backend, error) {
	if !stateID.MatchString(c.StateID) {
		return nil, errors.New("confine: new: the state id is missing or not a plain name")
	}
	if c.Warm < 0 {
		return nil, errors.New("confine: new: a negative number of cells")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	b := &Backend{log: c.Log, uid: int64(os.Geteuid()), live: map[uint64]bool{}, running: map[*process]bool{}, filters: map[subject][]byte{}, counted: map[int64]count{}}
	b.state, b.next = stateMark(c.StateID), random32()
	b.name = fmt.Sprintf("%08x", b.next)
	b.pool.init(b, c.Warm)
	if b.no = b.prepare(c); b.no != nil {
		b.log.Warn("tier B cannot be used", "reason", b.no.Reason, "why", b.no.Text, "remedy", b.no.Remedy, "err", b.no.Cause)
		return b, nil
	}
	b.pool.start()
	return b, nil
}

// prepare finds out once what the host gives.
func (b *Backend) prepare(c Config) (no *palyra.Error) {
	if b.host, no = lookAt(); no != nil {
		return no
	}
	if b.image, no = image(c.Cell, c.Digest); no != nil {
		return no
	}
	all, err := readHierarchies()
	if err != nil {
		b.log.Warn("cgroups cannot be looked up", "err", err)
	}
	if b.cg, no = cgroupfs.discover(c.Cgroup, "palyra-"+c.StateID, all, os.Getpid()); no != nil {
		return no
	}
	b.holds = enforcement(b.host, b.cg)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return unavailable("palyrad cannot become a subreaper").WithRemedy("see the daemon's log").WithCause(err)
	}
	if b.logs, err = b.listenLogs(); err != nil {
		return unavailable("no descriptors are left for cells").WithRemedy("raise the daemon's open files limit").WithCause(err)
	}
	return nil
}

func readHierarchies() (map[string]hierarchy, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return hierarchies(string(own), string(mounts)), err
}

func stateMark(id string) uint32 {
	h := sha256.Sum256([]byte("palyra mark " + id))
	return binary.BigEndian.Uint32(h[:]) >> 1 // the top bit of a limit stays clear: all ones is "unlimited"
}

func random32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

// Executor implements sandbox.Backend.
func (*Backend) Executor() string { return executor }

// Tier implements sandbox.Backend.
func (*Backend) Tier() palyra.Tier { return palyra.TierB }

// Probe implements sandbox.Backend. Who the program runs as is not known here;
// Exit says it.
func (b *Backend) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	if b.no != nil {
		return palyra.Enforcement{}, b.no
	}
	return clone(b.holds), nil
}

// Start implements sandbox.Backend. The context bounds only the starting; once
// the order to run is given, what comes back is a Process, even one that is
// already being stopped, because something may have run.
func (b *Backend) Start(ctx context.Context, j sandbox.Job) (sandbox.Process, error) {
	defer closeFiles(j)
	if b.no != nil {
		return nil, b.no
	}
	if !b.enter() {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "tier B is closed")
	}
	defer b.work.Done()
	if err := b.check(j); err != nil {
		return nil, err
	}
	j.Limits = withDefaults(j.Limits)
	for tries := b.pool.size + 1; ; tries-- {
		k, err := b.pool.take(ctx)
		if err != nil {
			return nil, err
		}
		p, err := b.launch(ctx, k, j)
		if errors.Is(err, errStale) && tries > 0 {
			continue // it died while it was idle; the next one, or a new one
		}
		return p, err
	}
}

// enter keeps Close waiting; false: it is too late.
func (b *Backend) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.work.Add(1)
	}
	return !b.closed
}

// errStale: a warm keeper was dead before anything was asked of it.
var errStale = errors.New("confine: the cell ended while it waited")

// launch gives a job to a keeper.
func (b *Backend) launch(ctx context.Context, k *keeper, j sandbox.Job) (sandbox.Process, error) {
	e := applied(enforcement(b.host, k.groups()), j)
	if err := checkPromise(e, j.Expect); err != nil {
		b.pool.giveBack(k)
		return nil, err
	}
	s, err := b.spec(j, k)
	if err == nil {
		err = k.limit(j.Limits, launchTasks)
	}
	if err != nil {
		k.discard()
		return nil, err
	}
	p, err := k.run(ctx, s, j, e)
	if err != nil || j.Limits.Processes >= launchTasks {
		return p, err
	}
	if err := k.limit(j.Limits, 0); err != nil { // the cell counts as well, so nothing gets away
		b.log.Error("a small limit of processes is only polled", "err", palyra.AsError(err).Cause)
	}
	return p, nil
}

// launchTasks is what the launcher itself, with its threads, may need until it
// is the program. A smaller limit is set when the program runs.
const launchTasks = 16

// limit writes the limits of a run into its cgroups, with at least so many tasks.
func (k *keeper) limit(l palyra.Limits, tasks int64) error {
	if k.group == nil {
		return nil
	}
	l = palyra.Limits{MemoryBytes: l.MemoryBytes, Processes: max(l.Processes, tasks)}
	if l == k.limits {
		return nil // they were set ahead
	}
	if err := k.group.limit(l); err != nil {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "the limits of the run cannot be set").
			WithRemedy("see the daemon's log").WithCause(err)
	}
	k.limits = l
	if l.Processes < launchTasks {
		return nil // no launcher could be born under it
	}
	k.b.mu.Lock()
	k.b.usual = l
	k.b.mu.Unlock()
	return nil
}

// Close implements sandbox.Backend: it ends idle cells and whatever still runs,
// and waits for both.
func (b *Backend) Close() error {
	b.mu.Lock()
	done := b.closed
	b.closed = true
	b.mu.Unlock()
	if done {
		return nil
	}
	b.pool.drain()
	for _, p := range b.left() {
		p.Stop("stopping", 0)
	}
	if b.logs != nil {
		_ = b.logs.Close()
	}
	b.work.Wait()
	for _, d := range b.cg.dirs() {
		_ = b.cg.rmdir(d) // the last daemon of this state takes it away; Recover finds it otherwise
	}
	if b.image != nil {
		return b.image.Close()
	}
	return nil
}

// left lists what runs. One that starts after this has been asked is ended by
// track.
func (b *Backend) left() []*process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.running))
}

// track notes that p runs, or that it does not any more.
func (b *Backend) track(p *process, runs bool) {
	b.mu.Lock()
	closed := b.closed
	if runs {
		b.running[p] = true
	} else {
		delete(b.running, p)
	}
	b.mu.Unlock()
	if closed && runs {
		p.Stop("stopping", 0)
	}
}
