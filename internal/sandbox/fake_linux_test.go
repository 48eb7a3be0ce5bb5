package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// fake is a backend that really runs programs, without confining them, and holds
// the runner to its side of the contract.
type fake struct {
	t        testing.TB
	tier     palyra.Tier
	probe    palyra.Enforcement
	probeErr error
	startErr error
	lost     error  // of Wait, after the tree is dead
	limit    string // that "ended" the program
	less     bool   // holds less than it promised
	slow     bool   // a Stop comes too late
	holdOut  bool   // somebody outside the tree keeps stdout open
	recovers error
	onStart  func(Job)
	walled   bool // runs have no private directory
	changed  []string
	left     []palyra.Remnant

	mu        sync.Mutex
	jobs      []Job
	held      []*os.File
	sizes     [][2]int
	recovered int
	closed    int
}

func (b *fake) Executor() string  { return "fake" }
func (b *fake) Tier() palyra.Tier { return b.tier }

func (b *fake) Probe(ctx context.Context, _ palyra.Limits) (palyra.Enforcement, error) {
	return b.probe, errors.Join(b.probeErr, ctx.Err())
}

func (b *fake) Recover(context.Context) error { b.recovered++; return b.recovers }
func (b *fake) Close() error                  { b.closed++; return nil }

func (b *fake) started() []Job {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.jobs)
}

func (b *fake) Start(ctx context.Context, j Job) (Process, error) {
	defer closeAll(j.Stdin, j.Stdout, j.Stderr, j.Sealed)
	b.inspect(j)
	if ctx.Err() != nil {
		b.t.Error("started after the end of the context")
	}
	if b.onStart != nil {
		b.onStart(j)
	}
	if err := errors.Join(b.startErr, ctx.Err()); err != nil {
		return nil, err
	}
	if b.holdOut {
		fd, err := unix.FcntlInt(j.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		b.held = append(b.held, os.NewFile(uintptr(fd), "held"))
	}
	cmd := &exec.Cmd{Path: j.Path, Args: j.Argv, Env: j.Env, Dir: j.Cwd, Stdin: j.Stdin, Stdout: j.Stdout, Stderr: j.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !j.Terminal, Setsid: j.Terminal, Setctty: j.Terminal}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(j.UID), Gid: uint32(j.GID)}
	}
	if j.Sealed != nil {
		cmd.ExtraFiles, cmd.Path = []*os.File{j.Sealed}, "/proc/self/fd/3"
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.jobs = append(b.jobs, j)
	b.mu.Unlock()
	return &process{fake: b, cmd: cmd, group: cmd.Process.Pid}, nil
}

// inspect checks what Start may rely on.
func (b *fake) inspect(j Job) {
	b.t.Helper()
	for name, path := range map[string]string{"path": j.Path, "cwd": j.Cwd, "workspace": j.Workspace} {
		if !filepath.IsAbs(path) {
			b.t.Errorf("%s %q is not absolute", name, path)
		}
	}
	if real, err := filepath.EvalSymlinks(j.Private); !b.walled && (err != nil || real != j.Private || !filepath.IsAbs(real)) {
		b.t.Errorf("the room %s is really %s, %v", j.Private, real, err)
	}
	for i, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		if f == nil {
			b.t.Fatalf("stream %d is missing", i)
		}
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			b.t.Errorf("stream %d: flags %x, %v", i, flags, err)
		}
	}
	for _, m := range []string{Sealed, Guarded} {
		if slices.Contains(j.Expect.Mechanisms, m) {
			b.t.Errorf("a backend is asked for %s, which is the runner's", m)
		}
	}
	if j.Sealed != nil {
		const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
		if seals, err := unix.FcntlInt(j.Sealed.Fd(), unix.F_GET_SEALS, 0); err != nil || seals&want != want {
			b.t.Errorf("seals %x, %v", seals, err)
		}
		if _, err := j.Sealed.WriteAt([]byte("x"), 0); err == nil {
			b.t.Error("a sealed copy can be written")
		}
	}
}

type process struct {
	*fake
	cmd    *exec.Cmd
	group  int
	mu     sync.Mutex
	reason string
	ended  bool
	timer  *time.Timer
}

func (p *process) kill(s syscall.Signal) error { return syscall.Kill(-p.group, s) }

func (p *process) Signal(name string) error {
	n := unix.SignalNum(name)
	if n == 0 {
		return errors.New("no such signal")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return os.ErrProcessDone
	}
	return p.kill(n)
}

func (p *process) Resize(rows, cols int) error {
	p.fake.mu.Lock()
	defer p.fake.mu.Unlock()
	p.sizes = append(p.sizes, [2]int{rows, cols})
	return nil
}

func (p *process) Stop(reason string, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.slow || p.reason != "" {
		return
	}
	p.reason = reason
	if grace == 0 {
		_ = p.kill(syscall.SIGKILL)
		return
	}
	_ = p.kill(syscall.SIGTERM)
	p.timer = time.AfterFunc(grace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended {
			_ = p.kill(syscall.SIGKILL)
		}
	})
}

func (p *process) Wait() (Exit, error) {
	for { // dead, and not yet reaped: its group's number cannot be anybody else's
		if err := unix.Waitid(unix.P_PID, p.group, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = p.kill(syscall.SIGKILL) // what it left behind
	_ = p.cmd.Wait()
	if p.timer != nil {
		p.timer.Stop()
	}
	e := Exit{
		Stopped: p.reason, Limit: p.limit, Changed: p.changed, Remnants: p.left, Enforcement: p.probe,
		Usage: palyra.Usage{CPUMS: 7, PeakMemory: 8, Processes: 2},
	}
	if p.less {
		e.Enforcement = palyra.Enforcement{Mode: "strict", Mechanisms: []string{"cell"}}
	}
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		e.Signal = unix.SignalName(ws.Signal())
	} else {
		e.Code = ws.ExitStatus()
	}
	if p.lost != nil {
		return Exit{}, p.lost
	}
	return e, nil
}

// audience is a Streams that remembers, and can hold the runner up.
type audience struct {
	mu     sync.Mutex
	chunks []palyra.Chunk
	heard  func(palyra.Chunk) // called for each
	feed   chan palyra.Feed   // nil: nobody feeds
}

func (a *audience) Output(_ palyra.CallID, c palyra.Chunk) {
	a.mu.Lock()
	a.chunks = append(a.chunks, c)
	a.mu.Unlock()
	if a.heard != nil {
		a.heard(c)
	}
}

func (a *audience) Feed(palyra.CallID) (<-chan palyra.Feed, bool) { return a.feed, a.feed != nil }

// text is what a stream was heard to say; the chunks must fit together.
func (a *audience) text(t *testing.T, stream string) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, c := range a.chunks {
		if c.Stream != stream {
			continue
		}
		if c.Offset != int64(b.Len()) || len(c.Data) == 0 || len(c.Data) > chunkSize {
			t.Errorf("%s: a chunk of %d bytes at %d, after %d", stream, len(c.Data), c.Offset, b.Len())
		}
		b.Write(c.Data)
	}
	return b.String()
}
