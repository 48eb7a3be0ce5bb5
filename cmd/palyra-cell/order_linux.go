package main

import (
	"cmp"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// order is a packet from the daemon; err: it could not be read.
type order struct {
	cell.Order
	files []*os.File
	err   error
}

// orders passes orders on until the daemon is gone.
func orders(conn *cell.Conn, to chan<- order) {
	defer close(to)
	for {
		var o order
		o.files, o.err = conn.Recv(&o.Order)
		if hasEnded(o.err) {
			return
		}
		to <- o
		if o.err != nil {
			return // packets after an unreadable one mean nothing
		}
	}
}

// obey does what a packet says. A packet that makes no sense ends the cell: a daemon that is not
// understood must not believe that it was.
func (s *supervisor) obey(o order) {
	if o.err != nil {
		s.confused(o.err.Error())
		return
	}
	if o.Kind != cell.OrderRun && o.Kind != cell.OrderBecome && len(o.files) > 0 {
		cell.CloseAll(o.files)
		s.confused("descriptors that belong to no order")
		return
	}
	switch o.Kind {
	case cell.OrderRun:
		s.run(o.files)
	case cell.OrderBecome:
		s.become(o.files)
	case cell.OrderWatch:
		s.follows(o.Watch)
	case cell.OrderStop:
		s.stop(o.Order)
	case cell.OrderSignal, cell.OrderResize:
		s.pass(o.Order)
	default:
		s.confused("an unknown order")
	}
}

// confused ends the cell for a packet that makes no sense.
func (s *supervisor) confused(text string) {
	s.broken = true
	if !s.started {
		s.fail("protocol", unix.EBADMSG, text)
		return
	}
	if s.phase != ending {
		s.cause(&s.stopped, "protocol")
	}
	s.kill()
}

// run has the launcher become the program of a Spec.
func (s *supervisor) run(files []*os.File) {
	defer func() {
		for i, f := range files {
			if i != stdinFD || s.terminal == nil {
				_ = f.Close()
			}
		}
	}()
	if s.phase != idle || s.became {
		if s.phase != ending {
			s.confused("a second run")
		}
		return
	}
	if len(files) <= stderrFD || len(files) > mostFDs {
		s.confused("a run without its descriptors")
		return
	}
	s.phase = launching
	spec, err := cell.ReadSpec(files[specFD])
	if err == nil {
		err = s.watch.set(spec.Watch)
	}
	if err != nil {
		s.fail("spec", unix.EINVAL, err.Error())
		return
	}
	if f := s.launch(&spec, files); f.step != "" {
		s.fail(f.step, f.errno, f.text)
		return
	}
	if spec.Terminal {
		s.terminal = files[stdinFD]
	}
}

// become has the launcher become a user ahead.
func (s *supervisor) become(files []*os.File) {
	defer cell.CloseAll(files)
	switch {
	case s.phase == ending:
		return
	case s.phase != idle || s.became || !s.direct || len(files) != 1:
		s.confused("a user without its spec, or too late")
		return
	}
	spec, err := cell.ReadSpec(files[0])
	if err != nil {
		s.fail("spec", unix.EINVAL, err.Error())
		return
	}
	s.became = true
	s.watch.keep(&spec.Watch.Counters)
	if err = s.launcher.Load(cell.LauncherImage(&spec, !isAlready(spec.Identity))); err == nil {
		err = s.launcher.Become(s.link)
	}
	if f := failed("launcher", "", err); f.step != "" {
		s.fail(f.step, f.errno, f.text)
	}
}

// follows takes the limits of a run that the launcher gets from the daemon itself, which comes after them.
func (s *supervisor) follows(limits *cell.Watch) {
	switch {
	case s.phase == ending:
		return
	case s.phase != idle || !s.became || limits == nil:
		s.confused("limits of a run that was not asked for")
		return
	}
	s.phase = launching
	_ = unix.Kill(s.pid, unix.SIGCONT) // others with its user may have stopped it while it waited; an error means that it has ended
	err := limits.Check()
	if err == nil {
		err = s.watch.set(*limits)
	}
	if err != nil {
		s.fail("spec", unix.EINVAL, err.Error())
	}
}

// await obeys the daemon until the limits of the run have come: the launcher can have been faster than them.
func (s *supervisor) await() {
	for s.phase == idle {
		o, ok := <-s.orders
		if !ok {
			s.orders = nil
			s.kill() // the daemon is gone
			return
		}
		s.obey(o)
	}
}

// stop ends the tree with SIGTERM and then SIGKILL. A second stop can only shorten the grace.
func (s *supervisor) stop(o cell.Order) {
	reason := o.Reason
	reason = cmp.Or(reason, "stopped")
	if s.phase != ending {
		s.cause(&s.stopped, reason)
	}
	if s.phase != running || o.GraceMS <= 0 {
		s.kill()
		return
	}
	s.hand.killAll(unix.SIGTERM)
	end := time.Now().Add(time.Duration(min(o.GraceMS, mostGrace)) * time.Millisecond)
	if s.patience.IsZero() || end.Before(s.patience) {
		s.patience = end
		s.timer.Reset(time.Until(end))
	}
}

// mostGrace is longer than any run, and short enough to be added to a time without overflow.
const mostGrace = 24 * 60 * 60 * 1000

// pass hands a signal or a size to the program. During the launch they wait for it; after its end they are dropped.
func (s *supervisor) pass(o cell.Order) {
	switch {
	case s.phase == idle:
		s.confused("an order for a program that was not asked for")
	case s.phase == launching:
		s.waiting = append(s.waiting, o)
	case s.exited || s.phase == ending:
	case o.Kind == cell.OrderSignal && o.Signal > 0 && o.Signal <= 64:
		s.hand.killGroup(s.pid, unix.Signal(o.Signal))
	case o.Kind == cell.OrderResize && s.terminal != nil:
		_ = unix.IoctlSetWinsize(int(s.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: o.Rows, Col: o.Cols})
	default:
		s.confused("an order that this program cannot take")
	}
}
