package jobobject

import (
	"sync"
	"time"

	"golang.org/x/sys/windows"

	"palyra"
	"palyra/internal/sandbox"
)

const (
	killed    = 0xc000013a // exit code of a process ended from outside
	endWithin = 20 * time.Second
	lookEvery = 5 * time.Millisecond
)

// process is a started job.
type process struct {
	backend *Driver
	plan    jobSpec
	job     windows.Handle
	handle  windows.Handle
	begun   time.Time
	done    chan struct{}

	mu      sync.Mutex
	stopped string
	gone    bool // the handles are closed
	timer   *time.Timer

	exit sandbox.Exit
	err  error
}

// follow waits for the program, ends the rest, and sets the result.
func (p *process) follow() {
	defer p.backend.track(p, false)
	event, err := windows.WaitForSingleObject(p.handle, windows.INFINITE)
	if err != nil || event != windows.WAIT_OBJECT_0 {
		p.err = lost(err)
	}
	var code uint32
	if err := windows.GetExitCodeProcess(p.handle, &code); err != nil {
		p.err = lost(err)
	}
	left, err := p.end()
	if err != nil {
		p.err = err
	}
	p.mu.Lock()
	p.exit = p.tell(code, left)
	p.gone = true
	if p.timer != nil {
		p.timer.Stop()
	}
	_ = windows.CloseHandle(p.handle)
	_ = windows.CloseHandle(p.job) // this ends whatever is still in it
	p.mu.Unlock()
	close(p.done)
}

func lost(cause error) error {
	return palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted, "the program could not be followed; it was ended").
		WithRemedy("look for the reason in the daemon's log").WithCause(cause)
}

// end ends everything in the job and waits until it is gone.
func (p *process) end() (left int, err error) {
	a, err := readAccount(p.job)
	if err != nil {
		return 0, lost(err)
	}
	left = int(a.Active)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(endWithin); a.Active > 0; <-tick.C {
		_ = windows.TerminateJobObject(p.job, killed) // again, because a process may just have been born
		if a, err = readAccount(p.job); err != nil {
			return left, lost(err)
		}
		if time.Now().After(deadline) {
			return left, palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted, "processes of the run could not be ended").
				WithRemedy("they are stuck in the kernel: restart the machine if need be")
		}
	}
	return left, nil
}

// tell makes the Exit, from the job's counters.
func (p *process) tell(code uint32, left int) sandbox.Exit {
	x := sandbox.Exit{Code: int(code), Stopped: p.stopped, Left: left, Enforcement: enforcement()}
	if p.stopped != "" && code == killed {
		x.Code, x.Signal = 0, "SIGKILL"
	}
	x.Usage.WallMS = time.Since(p.begun).Milliseconds()
	a, err := readAccount(p.job)
	if err != nil {
		return x
	}
	x.Usage.CPUMS, x.Usage.Processes = (a.UserTime+a.KernelTime)/unitsPerMilli, int64(a.Processes)
	_, peak, err := readLimits(p.job)
	if err == nil {
		x.Usage.PeakMemory = int64(peak)
	}
	switch {
	case p.stopped != "" || code == 0:
	case a.UserTime >= p.plan.job.time:
		x.Limit = "cpu"
	case peak >= p.plan.job.memory-p.plan.job.memory/64: // a failed allocation leaves it just below
		x.Limit = "memory"
	}
	return x
}

// Signal implements sandbox.Process. This system has no signals but the end.
func (p *process) Signal(name string) error {
	if name == "SIGKILL" || name == "SIGTERM" {
		return p.terminate()
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "Windows has no signal %q", palyra.Clip(name, 32)).
		WithRemedy("use SIGKILL, which ends the program")
}

func (p *process) terminate() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonRunEnded, "the program has ended")
	}
	return windows.TerminateJobObject(p.job, killed)
}

// Resize implements sandbox.Process: there are no terminals.
func (*process) Resize(int, int) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "tier C on Windows has no terminals")
}

// Stop implements sandbox.Process. A program cannot be asked to end, so it is terminated when the
// grace is over; it may end by itself before.
func (p *process) Stop(reason string, grace time.Duration) {
	p.mu.Lock()
	if p.stopped == "" && !p.gone {
		p.stopped = reason
	}
	if grace > 0 && p.timer == nil && !p.gone {
		p.timer = time.AfterFunc(grace, func() { _ = p.terminate() }) // an error means that it has ended already
	}
	p.mu.Unlock()
	if grace <= 0 {
		_ = p.terminate()
	}
}

// Wait implements sandbox.Process.
func (p *process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}
