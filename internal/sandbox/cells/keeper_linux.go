package cells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox/refusal"
)

const (
	readyWithin   = 10 * time.Second // a cell that takes longer is broken
	startWithin   = 30 * time.Second // the kernel may hold up a fork for ever; its waiting caller goes on
	removeWithin  = 5 * time.Second
	reportsAtMost = 8 // more would break the protocol
)

// Body is the process of a cell, as its tier started it.
type Body interface {
	// Pid names it in the log.
	Pid() int
	// Kill ends it with everything that depends on it. It does not wait.
	Kill()
	// Wait returns when it is gone and reaped. It is called once.
	Wait() error
}

// Start starts a cell for a keeper: control is the cell's end of the socket, logs the pipe for its
// messages. The caller still owns both.
type Start func(k *Keeper, control, logs *os.File) (Body, error)

// Said is a report with the descriptors that came along.
type Said struct {
	cell.Report
	Files []*os.File
}

// Speaker is the daemon's end of a cell's socket.
type Speaker interface {
	// Send sends an order with descriptors, which stay the caller's.
	Send(o cell.Order, fds ...int) error
	// Recv receives a report with descriptors, which the caller closes. io.EOF: the cell is gone.
	Recv(r *cell.Report) ([]*os.File, error)
	Close() error
}

// Keeper is a running palyra-cell, or a room.
type Keeper struct {
	Fleet *Fleet
	Body  Body
	Conn  Speaker
	Mark  uint64
	Group *Group // nil: without cgroups

	// Give hands a job over in a tier's own way, with the descriptors of its streams and of a sealed program; nil: by an
	// OrderRun. With an error nothing was handed over.
	Give func(s cell.Spec, fds []int) error

	room bool

	counters cell.Counters // of Group
	counts   []*os.File    // open ones of them
	limits   palyra.Limits // that are set in Group
	session  int           // of its launcher, where the daemon can see it
	reports  chan Said
	gone     chan struct{} // closed when the cell is reaped
	closed   atomic.Bool   // by us
}

// Open starts a cell. Next returns its first report.
func (f *Fleet) Open(start Start) (*Keeper, error) {
	return f.open(start, func(c *cell.Conn) Speaker { return cell.Orders{Conn: c} }, false)
}

// OpenRoom has a room made: control is the end of its first process. Next returns its first report.
func (f *Fleet) OpenRoom(start Start) (*Keeper, error) {
	return f.open(start, func(c *cell.Conn) Speaker { return cell.NewLine(c) }, true)
}

func (f *Fleet) open(start Start, speak func(*cell.Conn) Speaker, room bool) (*Keeper, error) {
	ours, theirs, err := cell.Pair()
	if err != nil {
		return nil, err
	}
	conn, err := cell.NewConn(ours)
	if err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	k := &Keeper{
		Fleet: f, Conn: speak(conn), room: room, Mark: f.NewMark(), reports: make(chan Said, reportsAtMost), gone: make(chan struct{}),
	}
	k.enclose()
	begun := make(chan error, 1)
	f.work.Go(func() {
		var err error
		k.Body, err = start(k, theirs, f.logs)
		_ = theirs.Close() // our copy would hide that the cell closed its end
		begun <- err
	})
	late := time.NewTimer(f.startWithin)
	defer late.Stop()
	select {
	case err = <-begun:
	case <-late.C:
		f.Log.Error("the host takes too long to start a cell", "waited", f.startWithin)
		f.work.Go(func() { k.abandon(<-begun) })
		return nil, refusal.SpawnFailed("the host did not start the cell in time")
	}
	if err != nil {
		k.abandon(err)
		return nil, err
	}
	f.work.Go(k.listen)
	return k, nil
}

// abandon ends a keeper that its caller gave up, whether or not its cell was started.
func (k *Keeper) abandon(err error) {
	k.close()
	if err == nil {
		k.Body.Kill()
		err = k.Body.Wait()
		k.Fleet.Log.Warn("a cell came too late and was ended", "err", err)
	}
	close(k.reports)
	close(k.gone)
	k.bury()
}

// give hands a job to the cell, or the room. ErrStale: nobody was there to take it.
func (k *Keeper) give(s cell.Spec, fds []int) error {
	if k.Give != nil {
		return k.Give(s, fds)
	}
	write := cell.WriteSpec
	if k.room {
		write = cell.WriteImage
	}
	f, err := write(s)
	if err != nil {
		return refusal.SpawnFailed("the job cannot be written down").WithCause(err)
	}
	defer func() { _ = f.Close() }()
	return Stale(k.Conn.Send(cell.Order{Kind: cell.OrderRun}, append([]int{int(f.Fd())}, fds...)...))
}

// Stale is the error of a job that a cell could not be sent.
func Stale(err error) error {
	if err == nil {
		return nil
	}
	return refusal.SpawnFailed("the cell ended while it waited").WithCause(errors.Join(ErrStale, err))
}

// Cgroups returns the cgroups of this keeper.
func (k *Keeper) Cgroups() Cgroups {
	if k.Group == nil {
		return Cgroups{}
	}
	return k.Group.Cgroups
}

// Counters returns the files of its cgroups that the cell reads.
func (k *Keeper) Counters() cell.Counters { return k.counters }

// Session sets the session that the launcher leads, for reaping what it leaves.
func (k *Keeper) Session(pid int) { k.session = pid }

// Launcher is the process that leads it; 0: it is not known.
func (k *Keeper) Launcher() int { return k.session }

// child is a Body that is a plain child process.
type child struct{ *os.Process }

func (c child) Pid() int { return c.Process.Pid }
func (c child) Kill()    { _ = c.Process.Kill() } // an error means that it has ended already
func (c child) Wait() error {
	_, err := c.Process.Wait()
	return err
}

// Exec runs the image itself, with the other end of the socket and nothing else.
func (k *Keeper) Exec(control, logs *os.File, args ...string) (Body, error) {
	return k.ExecWith([]*os.File{control}, logs, args...)
}

// ExecWith is Exec with more descriptors behind the socket.
func (k *Keeper) ExecWith(files []*os.File, logs *os.File, args ...string) (Body, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	p, err := os.StartProcess(Descriptor(k.Fleet.Image), append([]string{"palyra-cell"}, args...), &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: append([]*os.File{null, logs, logs}, files...), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("cells: start: %w", err)
	}
	return child{p}, nil
}

// listen passes on the cell's reports until it is gone, and reaps it.
func (k *Keeper) listen() {
	defer close(k.gone)
	for n := 0; n < reportsAtMost; n++ {
		var s Said
		var err error
		if s.Files, err = k.Conn.Recv(&s.Report); err != nil {
			if !errors.Is(err, io.EOF) && !k.closed.Load() {
				k.Fleet.Log.Error("a cell speaks another language", "err", err)
			}
			break
		}
		k.reports <- s
	}
	close(k.reports)
	k.close() // a cell that lost its daemon ends its tree and then itself
	if err := k.Body.Wait(); err != nil {
		k.Fleet.Log.Error("a cell cannot be reaped", "err", err)
	}
}

func (k *Keeper) close() {
	if !k.closed.Swap(true) {
		_ = k.Conn.Close()
	}
}

// Next waits for the next report of a cell that has no program yet. The caller owns the files.
func (k *Keeper) Next(ctx context.Context) (Said, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	select {
	case r, ok := <-k.reports:
		if !ok {
			return Said{}, refusal.SpawnFailed("the cell ended before it was ready")
		}
		return r, nil
	case <-ctx.Done():
		return Said{}, refusal.SpawnFailed("the cell was not ready in time").WithCause(ctx.Err())
	}
}

// enclose makes the cgroups in which the launcher will be born, or the cell itself in a room. If
// that fails the keeper has none, and a plan with a promise of some is refused.
func (k *Keeper) enclose() {
	f := k.Fleet
	if len(f.Groups.Dirs()) == 0 {
		return
	}
	g, err := f.Groups.group(fmt.Sprintf("%s-%d", f.name, uint32(k.Mark)))
	if err != nil {
		f.Log.Error("a cell is without cgroups", "err", err)
		return
	}
	k.Group, k.counters = g, g.counters()
	f.mu.Lock()
	usual := f.usual
	f.mu.Unlock()
	if usual.MemoryBytes > 0 && g.limit(usual) == nil {
		k.limits = usual // a run with other limits sets them
	}
}

// Limit writes the limits of a run into its cgroups, with at least so many tasks. Limits that a
// launcher can be born under are set ahead for the next run, which is likely to have the same.
func (k *Keeper) Limit(l palyra.Limits, tasks int64) error {
	if k.Group == nil {
		return nil
	}
	l = palyra.Limits{MemoryBytes: l.MemoryBytes, Processes: max(l.Processes, tasks)}
	if l == k.limits {
		return nil // set ahead
	}
	if err := k.Group.limit(l); err != nil {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "the limits of the run cannot be set").
			WithRemedy("see the daemon's log").WithCause(err)
	}
	k.limits = l
	if l.Processes < LaunchTasks {
		return nil // no launcher could be born under them
	}
	k.Fleet.mu.Lock()
	k.Fleet.usual = l
	k.Fleet.mu.Unlock()
	return nil
}

// LaunchTasks is how many tasks the launcher itself, with its threads, may need until it is the
// program. A smaller limit is set when the program runs.
const LaunchTasks = 16

// Dead reports whether an idle keeper has ended.
func (k *Keeper) Dead() bool {
	select {
	case <-k.gone:
		return true
	default:
		return len(k.reports) > 0 // an idle cell sends no reports
	}
}

// Discard ends a keeper without a program.
func (k *Keeper) Discard() {
	k.close()
	k.Fleet.work.Go(func() { k.bury() })
}

// bury waits for the cell's end, by force if necessary, and removes its cgroups.
func (k *Keeper) bury() {
	select {
	case <-k.gone:
	case <-time.After(readyWithin):
		k.Fleet.Log.Error("a cell does not end and is killed", "pid", k.Body.Pid())
		k.Body.Kill()
		<-k.gone
	}
	for r := range k.reports { // nobody reads these any more
		cell.CloseAll(r.Files)
	}
	cell.CloseAll(k.counts)
	if k.Group != nil {
		if err := k.Group.remove(removeWithin); err != nil {
			k.Fleet.Log.Error("a cgroup is left behind", "err", err)
		}
	}
	k.Fleet.Forget(k.Mark)
}
