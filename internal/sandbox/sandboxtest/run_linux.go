package sandboxtest

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// patience is how long anything may take before the suite calls it stuck.
const patience = 90 * time.Second

// roomy are limits that no honest case runs into.
var roomy = palyra.Limits{CPUMS: 60_000, MemoryBytes: 1 << 30, Processes: 256, OpenFiles: 1024, FileBytes: 256 << 20, DiskBytes: 4 << 30}

// order is a program to run.
type order struct {
	argv   []string
	limits palyra.Limits // zero: roomy
	env    []string
	stdin  string
	cwd    string // below the workspace
	slow   bool   // it may take minutes
	change func(*sandbox.Job)
}

// ended is the result of an order.
type ended struct {
	sandbox.Exit
	stdout, stderr string
}

// running is a program inside.
type running struct {
	sandbox.Process
	private  string
	patience time.Duration
	out, err *stream
}

// stream reads one end of a pipe until nobody holds the other.
type stream struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	done chan struct{}
}

func readAll(f *os.File) *stream {
	s := &stream{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_, _ = io.Copy(s, f)
		_ = f.Close()
	}()
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// job makes a job with pipes.
func (b *bench) job(t *testing.T, o order) (sandbox.Job, *stream, *stream) {
	t.Helper()
	call := palyra.CallID("C" + random())
	private := b.private(t, call)
	t.Cleanup(func() { _ = os.RemoveAll(private) })
	if o.limits == (palyra.Limits{}) {
		o.limits = roomy
	}
	path, err := exec.LookPath(o.argv[0])
	check(t, err)
	outR, outW, err := os.Pipe()
	check(t, err)
	errR, errW, err := os.Pipe()
	check(t, err)
	home, tmp := b.ownPlaces(private)
	j := sandbox.Job{
		Call: call, Path: path, Argv: o.argv, Cwd: b.ws + o.cwd, UID: int64(b.who.uid), GID: int64(b.who.gid), Workspace: b.ws, Private: private,
		Env:    append([]string{"PATH=" + cell.SearchPath, "HOME=" + home, "TMPDIR=" + tmp, "LANG=C.UTF-8"}, o.env...),
		Limits: o.limits, Stdin: input(t, o.stdin), Stdout: outW, Stderr: errW,
	}
	if home == cell.RoomHome {
		j.Private = ""
	}
	if o.change != nil {
		o.change(&j)
	}
	return j, readAll(outR), readAll(errR)
}

// ownPlaces are a run's home and temporary directory.
func (b *bench) ownPlaces(private string) (home, tmp string) {
	if _, shared := b.Lacks[ownFiles]; shared {
		return private + "/home", private + "/tmp"
	}
	return cell.RoomHome, cell.RoomTmp
}

// input is a descriptor from which a text can be read, and nothing after it.
func input(t *testing.T, text string) *os.File {
	t.Helper()
	if text == "" {
		f, err := os.Open(os.DevNull)
		check(t, err)
		return f
	}
	r, w, err := os.Pipe()
	check(t, err)
	go func() { _, _ = io.WriteString(w, text); _ = w.Close() }()
	return r
}

// start starts a program inside.
func (b *bench) start(t *testing.T, o order) *running {
	t.Helper()
	j, out, stderr := b.job(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := b.backend.Start(ctx, j)
	if err != nil {
		t.Fatalf("start %v: %v", o.argv, err)
	}
	r := &running{p, b.base + "/private-" + string(j.Call), patience, out, stderr}
	if o.slow {
		r.patience *= 2
	}
	return r
}

// wait returns when nothing of the program is left; it ends what takes too long.
func (r *running) wait(t *testing.T) ended {
	t.Helper()
	stuck := time.AfterFunc(r.patience, func() { r.Stop("suite", 0) })
	defer stuck.Stop()
	x, err := r.Wait()
	if err != nil {
		t.Errorf("wait: %v", err)
	}
	if x.Stopped == "suite" {
		t.Errorf("it had to be stopped after %v", r.patience)
	}
	for name, s := range map[string]*stream{"stdout": r.out, "stderr": r.err} {
		select {
		case <-s.done:
		case <-time.After(patience):
			t.Errorf("somebody still holds the program's %s", name)
		}
	}
	return ended{x, r.out.String(), r.err.String()}
}

// ready waits until the program has said so.
func (r *running) ready(t *testing.T) {
	t.Helper()
	eventually(t, "the program is ready", func() bool { return strings.Contains(r.out.String(), "ready\n") })
}

func (b *bench) run(t *testing.T, o order) ended {
	t.Helper()
	return b.start(t, o).wait(t)
}

// works runs a program that must end well.
func (b *bench) works(t *testing.T, o order) ended {
	t.Helper()
	e := b.run(t, o)
	if e.Code != 0 || e.Signal != "" || e.Limit != "" {
		t.Errorf("%q: code %d, signal %q, limit %q\n%s%s", o.argv, e.Code, e.Signal, e.Limit, clip(e.stdout), clip(e.stderr))
	}
	return e
}

func clip(s string) string { return s[:min(len(s), 2000)] }

// eventually polls for something that another process will bring about.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
