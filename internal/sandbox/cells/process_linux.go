package cells

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/refusal"
)

// stopSlack is how long after SIGKILL a cell may take to see its tree gone. A process that the
// kernel cannot end, for example in a dead file system, is reported as a lost cell.
const stopSlack = 20 * time.Second

// Terms are a tier's additions to following a program.
type Terms struct {
	Holds   palyra.Enforcement
	Explain func(cell.Report) error // of a failure, in words for people
	// After is called when nothing of the tree is left, before Wait returns or, when nothing ran,
	// before Run does. Its error is Wait's. Nil: nothing is to be done.
	After func(x *sandbox.Exit, ran bool) error
	// Account completes the last report of a room, whose first process knows little. Nil: the report has all.
	Account func(*cell.Report)
}

// Process is a started job.
type Process struct {
	k       *Keeper
	terms   Terms
	limits  palyra.Limits
	memory  int64 // limit in bytes, where only polling bounds it
	begun   time.Time
	started chan error    // one answer: nil when the program runs
	done    chan struct{} // closed when exit and err are set

	mu       sync.Mutex
	stopped  string // reason of the first Stop
	over     string // limit that somebody else saw passed
	deadline *time.Timer
	terminal *os.File // of a program whose cell does not resize it; nil: it has none

	exit sandbox.Exit
	err  error
}

// ErrStale means that a keeper was dead before anything was asked of it. Nothing ran.
var ErrStale = errors.New("cells: the cell ended while it waited")

// Run sends the order and waits until the program runs. With an error nothing ran, and the keeper
// is discarded. The context bounds only the starting; once the order is given, Run returns a
// Process, even one that is already being stopped, because something may have run.
func (k *Keeper) Run(ctx context.Context, s cell.Spec, j sandbox.Job, t Terms) (*Process, error) {
	terminal, err := k.terminalOf(j)
	if err != nil {
		k.Discard()
		return nil, refusal.SpawnFailed("the job's terminal cannot be kept").WithCause(err)
	}
	if err := k.give(s, jobFiles(j)); err != nil {
		cell.CloseAll([]*os.File{terminal})
		k.Discard()
		return nil, err
	}
	p := &Process{
		k: k, terms: t, limits: j.Limits, memory: s.Watch.Memory, begun: time.Now(), started: make(chan error, 1),
		done: make(chan struct{}), terminal: terminal,
	}
	k.Fleet.track(p, true)
	k.Fleet.work.Go(p.follow)
	select {
	case err = <-p.started:
	case <-ctx.Done():
		p.Stop(reasonOf(ctx), 0)
		err = <-p.started
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// terminalOf is the terminal of a job that its cell does not resize.
func (k *Keeper) terminalOf(j sandbox.Job) (*os.File, error) {
	if !j.Terminal || !k.resizes() {
		return nil, nil
	}
	fd, err := unix.FcntlInt(j.Stdin.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// resizes reports whether terminals are resized from here and not by the cell.
func (k *Keeper) resizes() bool { return k.room || k.Give != nil }

// jobFiles are the descriptors of a job. The program's streams are in blocking mode, as programs expect.
func jobFiles(j sandbox.Job) (fds []int) {
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		_ = unix.SetNonblock(int(f.Fd()), false) // cannot fail for an open file
		fds = append(fds, int(f.Fd()))
	}
	if j.Sealed != nil {
		fds = append(fds, int(j.Sealed.Fd()))
	}
	return fds
}

// reasonOf is the Runner's name for the end of a context.
func reasonOf(ctx context.Context) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "wall_clock"
	}
	return "cancelled"
}

// follow reads the cell's reports to the end, and completes the Process.
func (p *Process) follow() {
	defer p.k.bury()
	defer p.k.Fleet.track(p, false)
	failed := p.hear()
	p.mu.Lock()
	cell.CloseAll([]*os.File{p.terminal}) // or whoever reads from it would wait for us
	p.terminal = nil
	p.mu.Unlock()
	p.after(failed == nil)
	p.mu.Lock()
	if p.deadline != nil {
		p.deadline.Stop()
	}
	p.mu.Unlock()
	close(p.done)
	p.answer(failed)
	runtime.Gosched() // whoever waits goes first: closing takes a while
	p.k.close()
}

// hear reads the cell's reports to the last, and returns why nothing ran, if that is certain. A
// cell that ends without a last report is lost: it is then not known whether the program ran, so
// started gets nil and Wait returns the error.
func (p *Process) hear() error {
	started := false
	for r := range p.k.reports {
		cell.CloseAll(r.Files) // no other report has files
		switch {
		case r.Kind == cell.ReportStarted:
			started = true
			p.answer(nil)
		case r.Kind == cell.ReportFailed && !started: // after the start it would be false
			return p.failed(r.Report)
		case r.Kind == cell.ReportExited:
			p.exited(r.Report)
		case r.Kind == cell.ReportEnded:
			p.ended(r.Report)
			return nil
		}
	}
	p.lost()
	return nil
}

// failed is the reason why nothing ran.
func (p *Process) failed(r cell.Report) error {
	p.k.quell()
	return p.terms.Explain(r)
}

// after lets the tier finish. The loss of a cell is the more serious error.
func (p *Process) after(ran bool) {
	if p.terms.After == nil {
		return
	}
	if err := p.terms.After(&p.exit, ran); err != nil && p.err == nil {
		p.err = err
	}
}

// answer answers Run, once.
func (p *Process) answer(err error) {
	select {
	case p.started <- err:
	default:
	}
}

func (p *Process) exited(r cell.Report) {
	p.exit.Code, p.exit.Signal = r.Code, signalName(r.Signal)
}

// ended believes a cell's last report about what the program did, but not that everything is gone: a program that
// took over its cell would say so and stay. The steps after a run rely on that, so it is made certain.
func (p *Process) ended(r cell.Report) {
	if left := p.k.quell(); left > 0 {
		p.lose(left)
		return
	}
	if p.terms.Account != nil {
		p.terms.Account(&r)
	}
	p.exit.Limit, p.exit.Stopped, p.exit.Left = r.Limit, r.Stopped, r.Killed
	p.exit.Usage = palyra.Usage{
		WallMS: time.Since(p.begun).Milliseconds(), CPUMS: r.Usage.CPUMS, PeakMemory: r.Usage.PeakMemory, Processes: r.Usage.Processes,
	}
	p.exit.Enforcement = p.terms.Holds
	if r.Limit == "processes" { // the cgroup noticed them between two looks
		p.exit.Usage.Processes = max(r.Usage.Processes, p.limits.Processes)
	}
	failed := p.exit.Code != 0 || p.exit.Signal != ""
	if p.memory > 0 && r.Usage.PeakMemory > p.memory && failed && r.Limit == "" && r.Stopped == "" {
		p.exit.Limit = "memory" // it was over the limit between two looks, and the rlimit behind them ended it
	}
}

// lost ends the tree of a cell that is gone. A cell that ended with its run when memory or tasks
// ran out, or that did not end its run in time when it was told of a limit, was not lost: the limit ended both.
func (p *Process) lost() {
	left := p.k.end()
	p.mu.Lock()
	limit := cmp.Or(p.k.Group.exceeded(), p.over)
	p.mu.Unlock()
	if left > 0 || limit == "" {
		p.lose(left)
		return
	}
	usage := palyra.Usage{WallMS: time.Since(p.begun).Milliseconds()}
	switch limit {
	case "memory":
		usage.PeakMemory = p.limits.MemoryBytes
	case "processes":
		usage.Processes = p.limits.Processes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = sandbox.Exit{Signal: signalName(int(unix.SIGKILL)), Limit: limit, Stopped: p.stopped, Usage: usage, Enforcement: p.terms.Holds}
}

// lose sets the result of a run whose cell cannot be asked or believed.
func (p *Process) lose(left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = sandbox.Exit{Stopped: p.stopped, Left: left, Enforcement: p.terms.Holds}
	e := palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted, "the cell that supervised the program was lost; its processes were ended").
		WithRemedy("look for the reason in the daemon's log; how far the program came is not known")
	if left > 0 {
		e = palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted,
			"the cell that supervised the program was lost, and %d processes of it could not be ended", left).
			WithRemedy("they are stuck in the kernel: look at them with ps and restart the machine if need be")
	}
	p.err = e
}

// Pid is the process id of the body of its cell.
func (p *Process) Pid() int { return p.k.Body.Pid() }

// Signal implements sandbox.Process.
func (p *Process) Signal(name string) error {
	n := unix.SignalNum(name)
	if n == 0 {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "there is no signal %q", palyra.Clip(name, 32)).
			WithRemedy("use a name like SIGINT")
	}
	return p.order(cell.Order{Kind: cell.OrderSignal, Signal: int(n)})
}

// Resize implements sandbox.Process.
func (p *Process) Resize(rows, cols int) error {
	if rows < 0 || cols < 0 || rows > math.MaxUint16 || cols > math.MaxUint16 {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a terminal cannot have %d rows and %d columns", rows, cols)
	}
	if !p.k.resizes() {
		return p.order(cell.Order{Kind: cell.OrderResize, Rows: uint16(rows), Cols: uint16(cols)})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal == nil {
		return ended()
	}
	return unix.IoctlSetWinsize(int(p.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
}

func (p *Process) order(o cell.Order) error {
	select {
	case <-p.done:
		return ended()
	default:
	}
	if err := p.k.Conn.Send(o); err != nil {
		return ended().WithCause(err)
	}
	return nil
}

func ended() *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonRunEnded, "the program has ended")
}

// Stop implements sandbox.Process. A later one can only shorten the grace.
func (p *Process) Stop(reason string, grace time.Duration) {
	grace = max(0, grace)
	p.mu.Lock()
	p.stopped = cmp.Or(p.stopped, reason)
	if p.deadline == nil {
		p.deadline = time.AfterFunc(grace+stopSlack, p.giveUp)
	} else if grace == 0 {
		p.deadline.Reset(stopSlack)
	}
	o := cell.Order{Kind: cell.OrderStop, Reason: p.stopped, GraceMS: grace.Milliseconds()}
	p.mu.Unlock()
	_ = p.order(o) // an error means that it has ended already
}

// Exceed ends the tree of a room for a limit that somebody else saw passed.
func (p *Process) Exceed(limit string) {
	p.mu.Lock()
	p.over = cmp.Or(p.over, limit)
	p.mu.Unlock()
	_ = p.order(cell.Order{Kind: cell.OrderLimit, Reason: limit}) // an error means that it has ended already
}

// giveUp closes the socket of a cell that does not come to an end, and then kills it; follow treats it as lost.
func (p *Process) giveUp() {
	p.k.Fleet.Log.Error("a cell does not stop and is given up", "pid", p.k.Body.Pid())
	p.k.Body.Kill()
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait implements sandbox.Process.
func (p *Process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

func signalName(n int) string {
	if n == 0 {
		return ""
	}
	return unix.SignalName(unix.Signal(n))
}
