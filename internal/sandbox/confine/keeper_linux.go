package confine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
)

const (
	readyWithin   = 10 * time.Second // a cell that takes longer is broken
	removeWithin  = 5 * time.Second
	reportsAtMost = 8 // more is not the language
)

// keeper is a running palyra-cell.
type keeper struct {
	b        *Backend
	proc     *os.Process
	conn     *cell.Conn
	launcher int
	mark     uint64
	group    *group        // nil: without cgroups
	counters cell.Counters // of group
	limits   palyra.Limits // that are set in group
	ahead    []identity    // of what its rules were made for ahead; nil: none were
	since    time.Time     // then
	reports  chan cell.Report
	gone     chan struct{} // closed when the cell is reaped
	closed   atomic.Bool   // by us
}

// groups says which cgroups hold this keeper.
func (k *keeper) groups() cgroups {
	if k.group == nil {
		return cgroups{}
	}
	return k.group.cgroups
}

// open starts a cell and waits until it is ready.
func (b *Backend) open(ctx context.Context) (*keeper, error) {
	ours, theirs, err := cell.Pair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	conn, err := cell.NewConn(ours)
	if err != nil {
		return nil, err
	}
	k := &keeper{b: b, conn: conn, mark: b.newMark(), reports: make(chan cell.Report, reportsAtMost), gone: make(chan struct{})}
	k.enclose()
	if k.proc, err = b.exec(theirs, k.group); err != nil {
		_ = conn.Close()
		close(k.gone)
		k.bury()
		return nil, fmt.Errorf("confine: start cell: %w", err)
	}
	_ = theirs.Close() // or its end would not show while we hold it
	b.work.Go(k.listen)
	if err := k.ready(ctx); err != nil {
		k.discard()
		return nil, err
	}
	return k, nil
}

// exec runs the sealed image with the other end of the socket and nothing else.
func (b *Backend) exec(control *os.File, g *group) (*os.Process, error) {
	argv := []string{"palyra-cell", "supervise"}
	if g != nil {
		argv = append(argv, g.places()...)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	return os.StartProcess(descriptor(b.image), argv, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{null, b.logs, b.logs, control}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

func (b *Backend) newMark() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	m := uint64(b.state)<<32 | uint64(b.next)
	b.live[m] = true
	return m
}

// listen passes on what the cell says until it is gone, and reaps it.
func (k *keeper) listen() {
	defer close(k.gone)
	for n := 0; n < reportsAtMost; n++ {
		var r cell.Report
		files, err := k.conn.Recv(&r)
		cell.CloseAll(files)
		if err != nil {
			if !errors.Is(err, io.EOF) && !k.closed.Load() {
				k.b.log.Error("a cell speaks another language", "err", err)
			}
			break
		}
		k.reports <- r
	}
	close(k.reports)
	k.close() // a cell that lost its daemon ends its tree and then itself
	if _, err := k.proc.Wait(); err != nil {
		k.b.log.Error("a cell cannot be reaped", "err", err)
	}
}

func (k *keeper) close() {
	if !k.closed.Swap(true) {
		_ = k.conn.Close()
	}
}

// ready waits for the first report.
func (k *keeper) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	select {
	case r, ok := <-k.reports:
		switch {
		case !ok:
			return spawnFailed("the cell ended before it was ready")
		case r.Kind != cell.ReportReady || r.Version != cell.Version || r.Launcher <= 0:
			return unavailable("palyra-cell speaks another version").WithRemedy(cellRemedy)
		}
		k.launcher = r.Launcher
		return nil
	case <-ctx.Done():
		return spawnFailed("the cell was not ready in time").WithCause(ctx.Err())
	}
}

// enclose makes the cgroups in which the launcher will be born. A keeper for
// which that fails has none, and a plan that was promised some will be refused.
func (k *keeper) enclose() {
	if len(k.b.cg.dirs()) == 0 {
		return
	}
	g, err := k.b.cg.group(fmt.Sprintf("%s-%d", k.b.name, uint32(k.mark)))
	if err != nil {
		k.b.log.Error("a cell is without cgroups", "err", err)
		return
	}
	k.group, k.counters = g, g.counters()
	k.b.mu.Lock()
	usual := k.b.usual
	k.b.mu.Unlock()
	if usual.MemoryBytes > 0 && g.limit(usual) == nil {
		k.limits = usual // a run with others sets them
	}
}

// prepare has the launcher make ahead of time what every job needs. A cell that
// cannot ends, and is found dead when its turn comes.
func (k *keeper) prepare() {
	filter, err := k.b.filterFor(subject{abi: k.b.host.abi})
	if err != nil {
		return // and no job will get further
	}
	room := masks(k.b.host.abi)
	room.Rules = k.b.host.rules
	k.ahead, k.since = identities(room.Rules), time.Now()
	f, err := cell.WriteSpec(cell.Spec{
		Version: cell.Version, Path: "/", Argv: []string{"-"}, Env: []string{}, Cwd: "/", Landlock: room, Filter: filter,
		Watch: cell.Watch{EveryMS: watchEveryMS},
	})
	if err == nil {
		err = errors.Join(k.conn.Send(cell.Order{Kind: cell.OrderPrepare}, int(f.Fd())), f.Close())
	}
	if err != nil {
		k.b.log.Warn("a cell could not be prepared", "err", err)
	}
}

// aheadFor is how long rules that were made ahead count.
const aheadFor = time.Minute

// anew reports whether a run must not rest on rules that were made ahead.
func (k *keeper) anew() bool {
	return k.ahead == nil || time.Since(k.since) > aheadFor || !slices.Equal(k.ahead, identities(k.b.host.rules))
}

// dead reports whether an idle keeper has ended.
func (k *keeper) dead() bool {
	select {
	case <-k.gone:
		return true
	default:
		return len(k.reports) > 0 // it has nothing to say while idle
	}
}

// discard ends a keeper without a program.
func (k *keeper) discard() {
	k.close()
	k.b.work.Go(func() { k.bury() })
}

// bury waits for the cell's end, with force if need be, and takes its cgroups
// away.
func (k *keeper) bury() {
	select {
	case <-k.gone:
	case <-time.After(readyWithin):
		k.b.log.Error("a cell does not end and is killed", "pid", k.proc.Pid)
		_ = k.proc.Kill() // gone already is as good
		<-k.gone
	}
	if k.group != nil {
		if err := k.group.remove(removeWithin); err != nil {
			k.b.log.Error("a cgroup is left behind", "err", err)
		}
	}
	k.b.mu.Lock()
	delete(k.b.live, k.mark)
	k.b.mu.Unlock()
}

// listenLogs makes the pipe that all cells complain into.
func (b *Backend) listenLogs() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.work.Go(func() {
		defer func() { _ = r.Close() }()
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			b.log.Warn("palyra-cell says", "line", palyra.Clip(lines.Text(), 500))
		}
		_, _ = io.Copy(io.Discard, r) // after a line without end: a cell must not die of a closed pipe
	})
	return w, nil
}

func clone(e palyra.Enforcement) palyra.Enforcement {
	e.Mechanisms, e.Limits = slices.Clone(e.Mechanisms), maps.Clone(e.Limits)
	return e
}

// errnoText is the kernel's word for an error number.
func errnoText(n int) string {
	if n <= 0 {
		return ""
	}
	return unix.Errno(n).Error()
}
