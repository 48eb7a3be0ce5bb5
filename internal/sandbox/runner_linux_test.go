package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cell"
)

func TestRun(t *testing.T) {
	b := newBox(t)
	b.sh("echo out; echo err >&2; exit 3")
	res := b.finished()
	want(t, "stdout", string(res.Stdout), "out\n")
	want(t, "stderr", string(res.Stderr), "err\n")
	want(t, "exit code", res.ExitCode, 3)
	want(t, "signal", res.Signal, "")
	want(t, "kill reason", res.KillReason, "")
	want(t, "truncated", res.Truncated, false)
	want(t, "executor", res.Executor, "fake")
	want(t, "enforcement", res.Enforcement, b.plan.Enforcement)
	want(t, "usage", res.Usage, palyra.Usage{WallMS: res.Usage.WallMS, CPUMS: 7, PeakMemory: 8, Processes: 2, BytesOut: 8})
	want(t, "heard on stdout", b.crowd.text(t, "stdout"), "out\n")
	want(t, "heard on stderr", b.crowd.text(t, "stderr"), "err\n")
}

func TestEnvironmentIsTheFixedOneAndThePlans(t *testing.T) {
	b := newBox(t)
	t.Setenv("SECRET_OF_THE_DAEMON", "x")
	b.plan.Env = []palyra.EnvVar{{Name: "A", Value: "1 2"}, {Name: "EMPTY"}}
	b.program("/usr/bin/env", "env")
	got := strings.Split(strings.TrimSpace(string(b.finished().Stdout)), "\n")
	private := b.back.started()[0].Private
	slices.Sort(got)
	want(t, "environment", got, []string{
		"A=1 2", "EMPTY=", "HOME=" + private + "/home", "LANG=C.UTF-8", "PATH=" + cell.SearchPath,
		"TMPDIR=" + private + "/tmp",
	})
}

func TestThePlansLanguageHolds(t *testing.T) {
	b := newBox(t)
	b.plan.Env = []palyra.EnvVar{{Name: "LANG", Value: "C"}}
	b.sh("echo $LANG")
	want(t, "LANG", string(b.finished().Stdout), "C\n")
}

func TestTheRoomIsTheRunsOwn(t *testing.T) {
	b := newBox(t)
	b.sh(`set -e
pwd; id -u
echo x > "$HOME/f"; echo x > "$TMPDIR/f"
cd "$HOME/.."; stat -c '%n %a %u' . home tmp exe`)
	out := strings.Split(strings.TrimSpace(string(b.finished().Stdout)), "\n")
	uid, us := strconv.Itoa(ordinary()), strconv.Itoa(os.Geteuid())
	modes := []string{". 700 " + us, "home 700 " + uid, "tmp 700 " + uid, "exe 700 " + us}
	if us == "0" {
		modes[0], modes[3] = ". 710 0", "exe 750 0"
	}
	want(t, "the run", out, append([]string{b.ws, uid}, modes...))
}

func TestNothingOfTheRunsUserCanChangeExe(t *testing.T) {
	if os.Geteuid() != 0 {
		return // one owner for all of it: the backend keeps the program out
	}
	b := newBox(t)
	b.sh(`cd "$HOME/.."; touch exe/x; touch x; mv exe exe2; chmod 777 exe; rmdir exe; ls`)
	res := b.finished()
	if n := strings.Count(string(res.Stderr), "\n"); n < 6 || len(res.Stdout) > 0 {
		t.Errorf("stdout %s, stderr %s", res.Stdout, res.Stderr)
	}
}

func TestTheRunHasTheOwnersGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		b := newBox(t)
		b.finished()
		want(t, "gid", b.back.started()[0].GID, os.Getegid())
		return
	}
	b := newBox(t) // unknown to the system: the workspace's group
	b.ok(os.Chown(b.ws, stranger, 4242))
	b.sh("id -g; id -G")
	want(t, "group", string(b.finished().Stdout), "4242\n4242\n")

	root := newBoxFor(t, 0)
	root.ok(os.Chown(root.ws, 0, 4242))
	root.finished()
	want(t, "root's identity", []int64{root.back.started()[0].UID, root.back.started()[0].GID}, []int64{0, 0})
}

func TestSignalIsAResult(t *testing.T) {
	b := newBox(t)
	b.sh("kill -SEGV $$")
	res := b.finished()
	want(t, "exit code", res.ExitCode, 128+int(syscall.SIGSEGV))
	want(t, "signal", res.Signal, "SIGSEGV")
}

func TestSignalWithoutANumberIsNoSuccess(t *testing.T) {
	want(t, "named", signalExit(Exit{Signal: "SIGKILL"}), 137)
	want(t, "unnamed", signalExit(Exit{Signal: "signal 34"}), 255)
	want(t, "unnamed with a code", signalExit(Exit{Signal: "signal 34", Code: 162}), 162)
}

func TestWhatTheProgramLeftBehindHoldsNothingUp(t *testing.T) {
	b := newBox(t)
	b.sh("sleep 1000 & echo started")
	want(t, "stdout", string(b.finished().Stdout), "started\n")
}

func TestAWriterOutsideTheTreeHoldsNothingUp(t *testing.T) {
	b := newBox(t)
	b.back.holdOut = true
	b.sh("echo before")
	want(t, "stdout", string(b.finished().Stdout), "before\n")
}

func TestPromise(t *testing.T) {
	b := newBox(t)
	got, err := b.r.Promise(t.Context(), palyra.TierB, palyra.Limits{})
	b.ok(err)
	want(t, "promise", got, b.back.probe)
	_, err = b.r.Promise(t.Context(), palyra.TierC, palyra.Limits{})
	if e := palyra.AsError(err); e.Code != palyra.Unavailable || e.Reason != palyra.ReasonTierUnavailable || e.Remedy == "" {
		t.Errorf("tier C: %+v", e)
	}
	b.back.probeErr = palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "no landlock")
	if _, err = b.r.Promise(t.Context(), palyra.TierB, palyra.Limits{}); !errors.Is(err, b.back.probeErr) {
		t.Errorf("tier B: %v", err)
	}
}

func TestNewWantsAllParts(t *testing.T) {
	dir := passable(t)
	full := func() Config {
		return Config{
			Stdin: func(palyra.Plan) ([]byte, error) { return nil, nil }, Dir: filepath.Join(dir, "rooms"), Now: time.Now,
			Backends: []Backend{&fake{tier: palyra.TierB}},
		}
	}
	for name, spoil := range map[string]func(*Config){
		"stdin": func(c *Config) { c.Stdin = nil }, "dir": func(c *Config) { c.Dir = "" },
		"now": func(c *Config) { c.Now = nil }, "a relative dir": func(c *Config) { c.Dir = "rooms" },
		"two of a tier":      func(c *Config) { c.Backends = append(c.Backends, &fake{tier: palyra.TierB}) },
		"a parent not there": func(c *Config) { c.Dir = filepath.Join(dir, "no", "rooms") },
	} {
		c := full()
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r, err := New(full())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "grace", r.Grace, defaultGrace)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestARunnerWithoutStreamsOrLog(t *testing.T) {
	b := newBox(t)
	b.r.Streams, b.r.Size = nil, nil
	b.sh("echo x")
	want(t, "stdout", string(b.finished().Stdout), "x\n")
	b.plan.Stdin = palyra.StdinLive
	if r := b.run().Refusal; r == nil || r.Reason != palyra.ReasonInterrupted {
		t.Errorf("live stdin: %+v", r)
	}
}

func TestClose(t *testing.T) {
	b := newBox(t)
	ready, release := make(chan struct{}), make(chan struct{})
	b.back.onStart = func(Job) { close(ready); <-release }
	g, c := b.confirmed()
	results, closed := make(chan palyra.Result), make(chan error)
	go func() { results <- b.r.Run(t.Context(), g, c) }()
	<-ready
	go func() { closed <- b.r.Close() }()
	for b.r.enter() { // until Close got there
		b.r.busy.Done()
	}
	select {
	case <-closed:
		t.Error("closed during a run")
	default:
	}
	close(release)
	if res := <-results; res.Refusal != nil || res.ExitCode != 0 {
		t.Errorf("the run under way: %+v", res)
	}
	b.ok(<-closed)
	b.ok(b.r.Close())
	want(t, "backend closed", b.back.closed, 1)
	b.back.jobs = nil
	if res := b.r.Run(t.Context(), g, c); res.Refusal == nil || res.Refusal.Reason != palyra.ReasonStopping {
		t.Errorf("after close: %+v", res)
	}
}

func TestRecover(t *testing.T) {
	b := newBox(t)
	r, err := b.r.private.make(callID, identity{ordinary(), ordinary()})
	b.ok(err)
	b.ok(os.WriteFile(filepath.Join(r.path, "home", "f"), nil, 0o600))
	live, err := b.r.private.make(callID, identity{ordinary(), ordinary()})
	b.ok(err)
	b.r.use(live.name, true)
	b.ok(os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600))
	b.ok(os.Mkdir(filepath.Join(b.dir, "somebody-elses"), 0o700))
	b.ok(os.Symlink(b.ws, filepath.Join(b.dir, "link-0123456789abcdef")))

	b.back.recovers = errors.New("a process resists")
	if err := b.r.Recover(t.Context()); !errors.Is(err, b.back.recovers) {
		t.Errorf("recover: %v", err)
	}
	if _, err := os.Stat(r.path); err != nil {
		t.Errorf("a room went while its processes may live: %v", err)
	}
	b.back.recovers = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.r.Recover(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("recover: %v", err)
	}
	b.ok(b.r.Recover(t.Context()))
	want(t, "backend recovered", b.back.recovered, 3)
	var left []string
	entries, err := os.ReadDir(b.dir)
	b.ok(err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want(t, "left", left, []string{live.name, "file", "link-0123456789abcdef", "somebody-elses"})
	b.r.use(live.name, false)
	b.ok(b.r.Recover(t.Context()))
}

func TestConcurrentRuns(t *testing.T) {
	b := newBox(t)
	b.sh("echo $HOME; cat /dev/zero | head -c 300000")
	b.plan.Limits.OutputBytes = 4 << 20
	g, c := b.confirmed()
	results := make(chan palyra.Result)
	const n = 8
	for range n {
		go func() { results <- b.r.Run(t.Context(), g, c) }()
	}
	homes := map[string]bool{}
	for range n {
		res := <-results
		home, rest, _ := strings.Cut(string(res.Stdout), "\n")
		homes[home] = true
		if len(rest) != 300000 || res.Refusal != nil {
			t.Errorf("%d bytes, %+v", len(rest), res.Refusal)
		}
	}
	want(t, "homes", len(homes), n)
}
