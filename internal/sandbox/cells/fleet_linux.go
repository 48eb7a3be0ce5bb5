package cells

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox/refusal"
)

// Fleet is the cells of one tier with everything that they share.
type Fleet struct {
	Log    *slog.Logger
	UID    int64 // the daemon's own
	Host   Host
	Image  *os.File // the one cell that is ever run
	Groups Cgroups

	config Config
	logs   *os.File // pipe for the cells' messages
	name   string   // of cgroup directories, without the number
	state  uint32   // upper half of every mark

	startWithin time.Duration // for a cell's process to exist

	mu      sync.Mutex
	closed  bool
	next    uint32 // lower half of the next mark
	live    map[uint64]bool
	running map[*Process]bool
	filters map[Subject][]byte
	counted map[int64]count // tasks, by uid
	usual   palyra.Limits   // of the last run that set some: likely the next one's too

	work sync.WaitGroup // goroutines of keepers, processes and the log
}

var stateID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// NewFleet returns a fleet that Prepare makes ready.
func NewFleet(c Config) (*Fleet, error) {
	if !stateID.MatchString(c.StateID) {
		return nil, errors.New("cells: new: the state id is missing or not a plain name")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fleet{
		Log: c.Log, UID: int64(os.Geteuid()), config: c, startWithin: startWithin,
		live: map[uint64]bool{}, running: map[*Process]bool{}, filters: map[Subject][]byte{}, counted: map[int64]count{},
	}
	f.state, f.next = stateMark(c.StateID+c.Kind), random32()
	f.name = fmt.Sprintf("%08x", f.next)
	return f, nil
}

// Prepare finds out once what the host permits. It makes the process a subreaper, so that processes
// of a lost cell can be found and reaped. A refusal is the whole tier's.
func (f *Fleet) Prepare() (no *palyra.Error) {
	if f.Host, no = lookAt(f.config.Tier); no != nil {
		return no
	}
	if f.Image, no = image(f.config.Cell, f.config.Digest); no != nil {
		return no
	}
	all, err := readHierarchies()
	if err != nil {
		f.Log.Warn("cgroups cannot be looked up", "err", err)
	}
	if f.Groups, no = f.discover(all); no != nil {
		return no
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return refusal.Unavailable("palyrad cannot become a subreaper").WithRemedy("see the daemon's log").WithCause(err)
	}
	if f.logs, err = f.listenLogs(); err != nil {
		return refusal.Unavailable("no descriptors are left for cells").WithRemedy("raise the daemon's open files limit").WithCause(err)
	}
	return nil
}

func (f *Fleet) discover(all map[string]hierarchy) (Cgroups, *palyra.Error) {
	w := where{daemon: "palyra-" + f.config.StateID + "-daemon", runs: "palyra-" + f.config.StateID + f.config.Kind, inside: f.config.Inside}
	return cgroupfs.discover(f.config.Cgroup, w, all, os.Getpid())
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

// NewMark returns a mark that is this fleet's until Forget.
func (f *Fleet) NewMark() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	m := uint64(f.state)<<32 | uint64(f.next)
	f.live[m] = true
	return m
}

// Forget gives a mark up, whose process is gone.
func (f *Fleet) Forget(m uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, m)
}

// Logs is where cells write their messages.
func (f *Fleet) Logs() *os.File { return f.logs }

// Foreign reports whether a mark is of this state, but not of this fleet: an earlier daemon left its process.
func (f *Fleet) Foreign(m uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return uint32(m>>32) == f.state && !f.live[m]
}

// Enter keeps Close waiting until Leave; false: the fleet is closed.
func (f *Fleet) Enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.work.Add(1)
	}
	return !f.closed
}

// Leave ends the part that Enter began.
func (f *Fleet) Leave() { f.work.Done() }

// Go runs do in a goroutine, and keeps Close waiting for it. The caller must be a goroutine of the
// fleet, or between Enter and Leave.
func (f *Fleet) Go(do func()) { f.work.Go(do) }

// Stopping is the refusal of a fleet that is closed.
func (f *Fleet) Stopping() *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "tier %s is closed", f.config.Tier)
}

// Close ends idle cells, by calling drain, and whatever still runs, and waits for both.
func (f *Fleet) Close(drain func()) error {
	f.mu.Lock()
	done := f.closed
	f.closed = true
	f.mu.Unlock()
	if done {
		return nil
	}
	drain()
	for _, p := range f.left() {
		p.Stop("stopping", 0)
	}
	if f.logs != nil {
		_ = f.logs.Close()
	}
	f.work.Wait()
	f.Groups.leave()
	if f.Image != nil {
		return f.Image.Close()
	}
	return nil
}

// left lists the running processes. One that starts after this is ended by track.
func (f *Fleet) left() []*Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.running))
}

// track notes that p runs, or no longer runs.
func (f *Fleet) track(p *Process, runs bool) {
	f.mu.Lock()
	closed := f.closed
	if runs {
		f.running[p] = true
	} else {
		delete(f.running, p)
	}
	f.mu.Unlock()
	if closed && runs {
		p.Stop("stopping", 0)
	}
}

// listenLogs makes the pipe for the messages of all cells.
func (f *Fleet) listenLogs() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	f.work.Go(func() {
		defer func() { _ = r.Close() }()
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			f.Log.Warn("palyra-cell says", "line", palyra.Clip(lines.Text(), 500))
		}
		_, _ = io.Copy(io.Discard, r) // after an overlong line: a cell must not die of a closed pipe
	})
	return w, nil
}

// Filter assembles the filter of a subject, once.
func (f *Fleet) Filter(s Subject) ([]byte, error) {
	s.abi = f.Host.ABI
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.filters[s]; ok {
		return b, nil
	}
	prog, err := filter(f.Host.arch, s)
	if err != nil {
		return nil, err
	}
	b, err := raw(prog)
	if err != nil {
		return nil, err
	}
	if len(f.filters) >= maxFilters {
		clear(f.filters)
	}
	f.filters[s] = b
	return b, nil
}

const maxFilters = 64
