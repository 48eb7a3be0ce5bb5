package cell

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The words between a daemon and the first process of a room, a byte each. It understands nothing longer.
const (
	LineConfine = 'c' // with descriptors, of the cgroups that it enters; then it gives up every capability, and is filtered
	LineRun     = 'r' // with descriptors: image, stdin, stdout, stderr
	LineSignal  = 's' // followed by the signal's number, for the program's process group
	LineTerm    = 't' // SIGTERM to all
	LineKill    = 'k' // SIGKILL to all, and the end
	LineLimit   = 'l' // the same, for a limit

	LineConfined = 'w' // it waits for the run
	LineStarted  = 'x' // the program runs
	LineFailed   = 'f' // followed by a step, and four bytes of an errno; nothing ran
	LineEnded    = 'd' // nothing is left of the tree; followed by an account, see LineEndedSize
)

// The account of LineEnded, in the machine's own order: 4 bytes wait status of the program, 4 bytes number of processes
// that were killed after its end, 8 bytes of processor time in microseconds, 8 bytes of most memory of one process in
// KiB, 1 byte why the end came: 0 by itself, or LineTerm, LineKill, LineLimit.
const LineEndedSize = 1 + 4 + 4 + 8 + 8 + 1

// LineSteps are the steps that can fail in a room's first process or in a launcher, by the number that stands for each.
var LineSteps = [...]string{
	"", "protocol", "descriptors", "namespace", "rlimit", StepWatching, "maker", "cgroup", "capabilities", "no_new_privs", "seccomp",
	"image", "terminal", "nice", "cwd", "signals", "landlock", "exec", "uid", "parent",
}

// The numbers of the steps.
const (
	StepNone = iota
	StepProtocol
	StepDescriptors
	StepNamespace
	StepRlimit
	StepWatch
	StepMaker
	StepCgroup
	StepCapabilities
	StepNoNewPrivs
	StepSeccomp
	StepImage
	StepTerminal
	StepNice
	StepCwd
	StepSignals
	StepLandlock
	StepExec
	StepUID
	StepParent
)

// Line is a daemon's end of the socket of a room's first process. It speaks the orders and reports of any cell.
type Line struct {
	conn *Conn

	mu      sync.Mutex
	cause   string // of the first stop, or the limit
	kill    *time.Timer
	until   time.Time // when it kills
	pending []Report  // that came in one packet
}

// NewLine takes over a Conn.
func NewLine(c *Conn) *Line { return &Line{conn: c} }

// Close ends the room: its first process ends with the socket, and everything with that.
func (l *Line) Close() error {
	l.mu.Lock()
	if l.kill != nil {
		l.kill.Stop()
	}
	l.mu.Unlock()
	return l.conn.Close()
}

// Pending reports whether a report waits, or the room is gone.
func (l *Line) Pending() bool { return l.conn.Pending() }

// Send sends an order with descriptors, which stay the caller's. After a stop with a grace it kills by itself.
func (l *Line) Send(o Order, fds ...int) error {
	switch o.Kind {
	case OrderConfine:
		return l.conn.SendBytes([]byte{LineConfine}, fds...)
	case OrderRun:
		return l.conn.SendBytes([]byte{LineRun}, fds...)
	case OrderSignal:
		return l.conn.SendBytes([]byte{LineSignal, byte(o.Signal)})
	case OrderStop:
		return l.stop(o)
	case OrderLimit:
		l.blame(o.Reason)
		return l.conn.SendBytes([]byte{LineLimit})
	}
	return fmt.Errorf("cell: send: a room takes no order %q", o.Kind)
}

// blame notes why the tree ends. The first reason counts.
func (l *Line) blame(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == "" {
		l.cause = why
	}
}

func (l *Line) stop(o Order) error {
	reason := o.Reason
	if reason == "" {
		reason = "stopped"
	}
	l.blame(reason)
	if o.GraceMS <= 0 {
		return l.conn.SendBytes([]byte{LineKill})
	}
	grace := time.Duration(min(o.GraceMS, mostGrace)) * time.Millisecond
	l.mu.Lock()
	defer l.mu.Unlock()
	if end := time.Now().Add(grace); l.kill == nil || end.Before(l.until) { // a second stop can only shorten the grace
		if l.kill != nil {
			l.kill.Stop()
		}
		l.until = end
		l.kill = time.AfterFunc(grace, func() { _ = l.conn.SendBytes([]byte{LineKill}) }) // an error means that it has ended
	}
	return l.conn.SendBytes([]byte{LineTerm})
}

// mostGrace is longer than any run, and short enough to be added to a time without overflow.
const mostGrace = 24 * 60 * 60 * 1000

var errLine = errors.New("cell: receive: not a word of a room's first process")

// Recv receives a report. No descriptors come with one.
func (l *Line) Recv(r *Report) ([]*os.File, error) {
	l.mu.Lock()
	if len(l.pending) > 0 {
		*r, l.pending = l.pending[0], l.pending[1:]
		l.mu.Unlock()
		return nil, nil
	}
	l.mu.Unlock()
	var buf [64]byte
	n, err := l.conn.recvBytes(buf[:])
	if err != nil {
		return nil, err
	}
	b := buf[:n]
	switch {
	case n == 1 && b[0] == LineConfined:
		*r = Report{Kind: ReportReady, Version: Version}
	case n == 1 && b[0] == LineStarted:
		*r = Report{Kind: ReportStarted}
	case n == 6 && b[0] == LineFailed && int(b[1]) < len(LineSteps):
		errno := unix.Errno(binary.NativeEndian.Uint32(b[2:]))
		*r = Report{Kind: ReportFailed, Step: LineSteps[b[1]], Errno: int(errno), Text: errno.Error()}
	case n == LineEndedSize && b[0] == LineEnded:
		l.ended(r, b[1:])
	default:
		return nil, errLine
	}
	return nil, nil
}

// ended makes two reports of one packet.
func (l *Line) ended(r *Report, b []byte) {
	status := unix.WaitStatus(binary.NativeEndian.Uint32(b))
	*r = Report{Kind: ReportExited, Code: status.ExitStatus()}
	end := Report{Kind: ReportEnded, Killed: int(binary.NativeEndian.Uint32(b[4:])), Usage: Usage{
		CPUMS: int64(binary.NativeEndian.Uint64(b[8:]) / 1000), PeakMemory: int64(binary.NativeEndian.Uint64(b[16:])) << 10, Processes: 1,
	}}
	if status.Signaled() {
		r.Code, r.Signal = 0, int(status.Signal())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch why := b[24]; {
	case why == LineLimit:
		end.Limit = l.cause
	case why != 0:
		end.Stopped = l.cause
	case r.Signal == int(unix.SIGXCPU):
		end.Limit = "cpu"
	case r.Signal == int(unix.SIGXFSZ):
		end.Limit = "file_size"
	}
	l.pending = append(l.pending, end)
}
