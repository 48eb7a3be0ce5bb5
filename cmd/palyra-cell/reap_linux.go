package main

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// reap is a process that ended, with its cost.
type reap struct {
	pid    int
	status unix.WaitStatus
	rusage unix.Rusage
	last   bool // no child is left
}

// usage is the cost of reaped processes, with the children that they waited for.
type usage struct {
	cpu    time.Duration
	memory int64 // of the largest process
}

func (u *usage) add(r reap) {
	u.cpu += time.Duration(r.rusage.Utime.Nano() + r.rusage.Stime.Nano())
	u.memory = max(u.memory, r.rusage.Maxrss<<10)
}

// reapAll waits for every child, in this one place, and closes the channel when none is left: a
// subreaper without children has no descendants. The last reap says already that it is the last,
// which saves a kill that would hit nobody.
func reapAll(reaps chan<- reap) {
	defer close(reaps)
	next, ok := wait(0)
	for ok {
		r := next
		if next, ok = wait(unix.WNOHANG); ok && next.pid == 0 {
			reaps <- r
			next, ok = wait(0)
			continue
		}
		r.last = !ok
		reaps <- r
	}
}

// wait waits for one child; false: there is none.
func wait(options int) (reap, bool) {
	for {
		var r reap
		var err error
		r.pid, err = unix.Wait4(-1, &r.status, unix.WALL|options, &r.rusage)
		if !errors.Is(err, unix.EINTR) {
			return r, err == nil
		}
	}
}

// hearing is everything that the launcher said before its socket closed.
type hearing struct {
	exec    bool // exec was announced
	failed  bool
	failure failure
}

// listen reads the launcher's packets, when its socket closes: by exec, or with the launcher. Until then nothing is done
// about them, and to wake for them would take the processor from who is about to execute the program.
func listen(link *os.File, heard chan<- hearing) {
	var h hearing
	buf := make([]byte, 16)
	closing := []unix.PollFd{{Fd: int32(link.Fd())}} // no events: the end is always among them
	for {
		if _, err := unix.Poll(closing, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	for {
		n, err := link.Read(buf)
		if err != nil || n == 0 {
			heard <- h
			return
		}
		switch buf[0] {
		case cell.LineStarted: // exec comes next
			h.exec = true
		case cell.LineFailed:
			h.failure, h.failed = parseFailure(buf[1:n]), true
		}
	}
}

// parseFailure reads why a launcher did not become the program.
func parseFailure(b []byte) failure {
	if len(b) != 5 || int(b[0]) >= len(cell.LineSteps) {
		return failure{step: "launcher", errno: unix.EBADMSG}
	}
	return failure{step: cell.LineSteps[b[0]], errno: unix.Errno(binary.NativeEndian.Uint32(b[1:]))}
}

// hear draws the conclusion. Only a launcher that announced exec, and then reported no failure, may
// have run something.
func (s *supervisor) hear(h hearing) {
	s.heard = nil
	s.launcher.Close() // it needs the memory no more
	switch {
	case h.failed:
		s.fail(h.failure.step, h.failure.errno, h.failure.text)
	case h.exec:
		s.await()
		s.begin()
	case s.stopped != "":
		s.fail("stopped", 0, s.stopped)
	default:
		s.fail("launcher", unix.ECHILD, "the launcher ended before exec")
	}
}

func hasEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed)
}
