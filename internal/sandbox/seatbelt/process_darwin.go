package seatbelt

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
)

const (
	lookEvery   = 50 * time.Millisecond
	endWithin   = 20 * time.Second // for everything to be gone after SIGKILL
	sweepWithin = 5 * time.Minute
)

// process is a started job.
type process struct {
	run   *jobRun
	pid   int
	queue int // of kernel events
	done  chan struct{}
	begun time.Time

	mu      sync.Mutex
	tree    *tree
	most    int
	limit   string
	stopped string
	gone    bool // the leader is reaped: its pid may be reused
	timer   *time.Timer

	exit sandbox.Exit
	err  error
}

// newProcess begins to follow a process. With an error it was not begun.
func newProcess(r *jobRun, pid int) (*process, error) {
	p := &process{run: r, pid: pid, done: make(chan struct{}), begun: time.Now()}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return nil, err
	}
	p.tree = newTree(row(info).ident)
	r.record.Pid, r.record.Start = pid, p.tree.leader.start
	if err := r.note(); err != nil {
		return nil, err
	}
	if p.queue, err = unix.Kqueue(); err != nil {
		return nil, err
	}
	unix.CloseOnExec(p.queue)
	ev := unix.Kevent_t{
		Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_CLEAR,
		Fflags: unix.NOTE_EXIT | unix.NOTE_FORK,
	}
	if _, err := unix.Kevent(p.queue, []unix.Kevent_t{ev}, nil, nil); err != nil {
		_ = unix.Close(p.queue)
		return nil, err
	}
	r.track(p, true)
	r.work.Go(p.follow)
	return p, nil
}

func row(k *unix.KinfoProc) proc {
	const zombie = 5 // SZOMB
	start := k.Proc.P_starttime
	return proc{
		ident:  ident{int(k.Proc.P_pid), start.Sec*1_000_000 + int64(start.Usec)},
		parent: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid), zombie: k.Proc.P_stat == zombie,
	}
}

// table is every process of the system.
func table() ([]proc, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	out := make([]proc, len(all))
	for i := range all {
		out[i] = row(&all[i])
	}
	return out, nil
}

// follow watches the run until its leader has ended, ends the rest, and sets the result.
func (p *process) follow() {
	defer p.run.track(p, false)
	for !p.leaderEnded() {
		p.look()
	}
	left, err := p.end()
	p.reap()
	_ = unix.Close(p.queue)
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.exit.Left, p.exit.Limit, p.exit.Stopped = left, p.limit, p.stopped
	p.exit.Usage.Processes = int64(p.most)
	p.exit.Usage.WallMS = time.Since(p.begun).Milliseconds()
	p.exit.Enforcement = applied(p.run.job)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), sweepWithin)
	defer cancel()
	made, serr := sweep(ctx, p.run.job.Workspace, p.run.names, p.run.place.marks, p.run.job.Call)
	for _, path := range made {
		if changed, ok := strings.CutPrefix(path, seal.ChangedPrefix); ok {
			p.exit.Changed = append(p.exit.Changed, changed)
		} else {
			p.exit.Quarantined = append(p.exit.Quarantined, path)
		}
	}
	if p.err = errors.Join(err, serr); p.err == nil {
		p.run.clean()
	} // otherwise the record stays for the next daemon
	close(p.done)
}

// leaderEnded waits for an event, a moment at most.
func (p *process) leaderEnded() bool {
	events := make([]unix.Kevent_t, 4)
	wait := unix.NsecToTimespec(int64(lookEvery))
	n, err := unix.Kevent(p.queue, nil, events, &wait)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return true // it is ended below
	}
	for _, e := range events[:max(0, n)] {
		if e.Fflags&unix.NOTE_EXIT != 0 {
			return true
		}
	}
	return false
}

// look counts, and ends a run that has too many processes.
func (p *process) look() []proc {
	rows, err := table()
	if err != nil {
		p.run.config.Log.Error("the table of processes cannot be read", "err", err)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	alive := p.tree.update(rows)
	p.most = max(p.most, len(alive))
	if over := int64(len(alive)) > p.run.job.Limits.Processes; over && p.limit == "" && p.stopped == "" {
		p.limit = "processes"
		kill(alive, unix.SIGKILL)
	}
	return alive
}

// kill signals processes that are in the table now.
func kill(who []proc, s unix.Signal) {
	for _, q := range who {
		_ = unix.Kill(q.pid, s) // an error means that it has ended already
	}
}

// end kills until nothing of the tree is left. It stops all processes first, so that none makes another meanwhile.
func (p *process) end() (killed int, err error) {
	deadline := time.Now().Add(endWithin)
	seen := map[ident]bool{}
	tick := time.NewTicker(lookEvery / 10)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		left := p.look()
		if len(left) == 0 {
			return len(seen), nil
		}
		for _, q := range left {
			if q.ident != p.tree.leader {
				seen[q.ident] = true
			}
		}
		kill(left, unix.SIGSTOP)
		kill(p.look(), unix.SIGKILL)
		<-tick.C
	}
	return len(seen), palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted, "processes of the run could not be ended").
		WithRemedy("they are stuck in the kernel: look at them with ps and restart the machine if need be")
}

// reap collects the leader's exit status.
func (p *process) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var status unix.WaitStatus
	var usage unix.Rusage
	for {
		if _, err := unix.Wait4(p.pid, &status, 0, &usage); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.gone = true
	p.exit.Code = status.ExitStatus()
	if status.Signaled() {
		p.exit.Code, p.exit.Signal = 0, unix.SignalName(status.Signal())
	}
	p.exit.Usage.CPUMS = (unix.TimevalToNsec(usage.Utime) + unix.TimevalToNsec(usage.Stime)) / int64(time.Millisecond)
	p.exit.Usage.PeakMemory = usage.Maxrss // bytes on this system
	switch status.Signal() {
	case unix.SIGXCPU:
		p.limit = "cpu"
	case unix.SIGXFSZ:
		p.limit = "file_size"
	}
}

// Signal implements sandbox.Process.
func (p *process) Signal(name string) error {
	n := unix.SignalNum(name)
	if n == 0 {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "there is no signal %q", palyra.Clip(name, 32)).
			WithRemedy("use a name like SIGINT")
	}
	return p.signal(n)
}

func (p *process) signal(n unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return ended()
	}
	if err := unix.Kill(-p.pid, n); err != nil {
		return ended().WithCause(err)
	}
	return nil
}

func ended() *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonRunEnded, "the program has ended")
}

// Resize implements sandbox.Process.
func (p *process) Resize(rows, cols int) error {
	if rows < 0 || cols < 0 || rows > math.MaxUint16 || cols > math.MaxUint16 || p.run.tty == nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a terminal cannot have %d rows and %d columns, or there is none",
			rows, cols)
	}
	return unix.IoctlSetWinsize(int(p.run.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
}

// Stop implements sandbox.Process. A later one can only shorten the grace.
func (p *process) Stop(reason string, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	p.stopped = cmp.Or(p.stopped, reason)
	switch {
	case grace > 0 && p.timer == nil:
		_ = unix.Kill(-p.pid, unix.SIGTERM)
		p.timer = time.AfterFunc(grace, func() { p.Stop(reason, 0) })
	case grace <= 0:
		_ = unix.Kill(p.pid, unix.SIGKILL) // the rest is ended when the leader is seen dead
	}
}

// Wait implements sandbox.Process.
func (p *process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}
