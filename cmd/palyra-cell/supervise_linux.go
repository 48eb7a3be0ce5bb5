package main

import (
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/first"
)

// phase is how far the one run of a cell has come.
type phase int

const (
	idle      phase = iota // the launcher waits
	launching              // the launcher has its descriptors
	running                // the program runs
	ending                 // everything is being killed
)

// again is the time after which a kill is repeated.
const again = 20 * time.Millisecond

// supervisor is one cell. All its state belongs to the goroutine of loop;
// reading orders, reaping and hearing the launcher happen beside it.
type supervisor struct {
	conn     *cell.Conn
	hand     *hand
	link     *os.File // to the launcher
	launcher *first.Launcher
	direct   bool // the launcher has a socket to the daemon
	became   bool // it was told whom to become, and gets its run there
	pid      int  // of the launcher, and so of the program

	orders  chan order
	reaps   chan reap
	heard   chan hearing
	timer   *time.Timer // grace, and then the repetition of a kill
	ticker  *time.Ticker
	waiting []cell.Order // signals and sizes that came during the launch

	phase    phase
	started  bool
	exited   bool
	terminal *os.File // the program's, kept for resizing
	watch    *watch
	failure  *cell.Report // why the program was not started
	limit    string
	stopped  string
	patience time.Time // until when a stop waits before it kills
	broken   bool      // the daemon sent a packet that makes no sense
	killed   int
	reaped   usage
}

// supervise serves one run. scope false is for kernels, and tests, without
// Landlock's signal scope.
// groups are the cgroups to be born in, as they stand on the command line.
func supervise(errs io.Writer, scope bool, groups ...string) int {
	s, err := newSupervisor(scope, groups)
	if err != nil {
		return refuse(errs, err.Error())
	}
	s.follow()
	s.report(cell.Report{Kind: cell.ReportReady, Version: cell.Version, Launcher: s.pid})
	rehearse()
	return s.loop()
}

func newSupervisor(scope bool, groups named) (*supervisor, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	s, err := newCell()
	if err != nil {
		return nil, err
	}
	if s.hand, err = newHand(scope); err != nil {
		return nil, err
	}
	if err := s.startLauncher(groups); err != nil {
		return nil, err
	}
	// Where this may not be set, the kernel chooses by size, and the supervisor is small.
	_ = setOOMScore("-500")
	return s, nil
}

// newCell returns a supervisor without hand and launcher.
func newCell() (*supervisor, error) {
	// Nothing may look into the process that decides over the tree.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, err
	}
	// Only the end of its socket ends the supervisor, not a signal that a terminal or an init sends
	// to a whole group: the tree would be left behind.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE)
	unix.CloseOnExec(cell.ControlFD)
	conn, err := cell.NewConn(os.NewFile(cell.ControlFD, "control"))
	if err != nil {
		return nil, err
	}
	s := &supervisor{
		conn: conn, orders: make(chan order), reaps: make(chan reap), heard: make(chan hearing, 1),
		timer: time.NewTimer(time.Hour),
	}
	s.timer.Stop()
	if s.watch, err = newWatch(unix.Getpid()); err != nil {
		return nil, err
	}
	return s, nil
}

// startLauncher starts the launcher, after making this process the reaper of all orphans below it.
func (s *supervisor) startLauncher(g named) error {
	theirs, err := s.newLink()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	if s.launcher, err = first.NewLauncher(); err != nil {
		return err
	}
	var daemon *os.File
	if s.direct = slices.Contains(g, cell.LaunchArg); s.direct {
		daemon = os.NewFile(cell.LaunchFD, "launch")
		defer func() { _ = daemon.Close() }() // nobody else has it, or its end would not be seen
	}
	s.pid, err = s.hand.start(s.launcher, theirs, daemon, g)
	return err
}

// newLink makes the socket to the launcher, and returns the launcher's end.
func (s *supervisor) newLink() (theirs *os.File, err error) {
	s.link, theirs, err = cell.Pair()
	return theirs, err
}

// follow starts the goroutines beside the loop.
func (s *supervisor) follow() {
	go orders(s.conn, s.orders)
	go reapAll(s.reaps)
	go listen(s.link, s.heard)
}

// loop runs the cell to its end and returns its exit code.
func (s *supervisor) loop() int {
	for {
		select {
		case o, ok := <-s.orders:
			if !ok {
				s.orders = nil
				s.kill() // the daemon is gone
				continue
			}
			s.obey(o)
		case r, ok := <-s.reaps:
			if !ok {
				return s.finish()
			}
			s.reap(r)
		case h := <-s.heard:
			s.hear(h)
		case <-s.timer.C:
			s.kill()
		case <-s.ticks():
			s.look()
		}
	}
}

func (s *supervisor) ticks() <-chan time.Time {
	if s.ticker == nil {
		return nil
	}
	return s.ticker.C
}

// report tells the daemon. A daemon that is gone shows when orders are read.
func (s *supervisor) report(r cell.Report) { _ = s.conn.Send(r) }

// kill sends SIGKILL to everything, and repeats it until wait4 finds nobody.
func (s *supervisor) kill() {
	s.phase = ending
	s.hand.killAll(unix.SIGKILL)
	s.timer.Reset(again)
}

// fail ends a cell whose program has not started. The first reason counts.
func (s *supervisor) fail(step string, errno unix.Errno, text string) {
	if s.failure == nil {
		text = failure{errno: errno, text: text}.message()
		s.failure = &cell.Report{Kind: cell.ReportFailed, Step: step, Errno: int(errno), Text: text}
	}
	s.kill()
}

// begin notes that the program runs.
func (s *supervisor) begin() {
	s.started = true
	s.report(cell.Report{Kind: cell.ReportStarted})
	if s.phase == ending {
		return // stopped during the launch, and being killed
	}
	s.phase = running
	s.ticker = time.NewTicker(s.watch.every())
	for _, o := range s.waiting {
		s.pass(o)
	}
	s.waiting = nil
}

// look ends the tree when it is over a limit. A tree that cannot be watched is ended, too.
func (s *supervisor) look() {
	if s.phase != running {
		return
	}
	limit, err := s.watch.look(s.reaped.cpu)
	switch {
	case err != nil:
		s.cause(&s.stopped, "unwatched")
	case limit != "":
		s.cause(&s.limit, limit)
	default:
		return
	}
	s.kill()
}

// cause notes why the tree ends. The first reason counts.
func (s *supervisor) cause(what *string, why string) {
	if s.limit == "" && s.stopped == "" {
		*what = why
	}
}

// reap handles the end of a process. The program's own end is reported at once; whatever it left behind is killed.
func (s *supervisor) reap(r reap) {
	s.reaped.add(r)
	if r.pid != s.pid {
		if s.exited && r.status.Signaled() && r.status.Signal() == unix.SIGKILL {
			s.killed++
		}
		return
	}
	if s.heard != nil {
		s.hear(<-s.heard) // the socket is closed, so the last packets are here
	}
	if s.started {
		s.programEnded(r)
	}
}

func (s *supervisor) programEnded(r reap) {
	s.exited = true
	status := r.status
	s.report(exit(cell.ReportExited, status))
	if s.terminal != nil {
		_ = s.terminal.Close()
		s.terminal = nil
	}
	switch {
	case !status.Signaled():
	case status.Signal() == unix.SIGXCPU:
		s.cause(&s.limit, limitCPU)
	case status.Signal() == unix.SIGXFSZ:
		s.cause(&s.limit, limitFileSize)
	}
	if s.phase = ending; !r.last {
		s.kill()
	}
}

func exit(kind cell.ReportKind, status unix.WaitStatus) cell.Report {
	r := cell.Report{Kind: kind}
	if status.Signaled() {
		r.Signal = int(status.Signal())
	} else {
		r.Code = status.ExitStatus()
	}
	return r
}

// finish reports the end, when nothing is left.
func (s *supervisor) finish() int {
	switch {
	case s.started:
		s.cause(&s.limit, s.watch.events())
		s.report(cell.Report{Kind: cell.ReportEnded, Limit: s.limit, Stopped: s.stopped, Killed: s.killed, Usage: s.watch.usage(s.reaped)})
	case s.failure != nil:
		s.report(*s.failure)
		return refused
	}
	if s.broken {
		return refused
	}
	return 0
}
