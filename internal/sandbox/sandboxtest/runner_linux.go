package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// desk is a runner on the bench's backend.
type desk struct {
	*bench
	r     *sandbox.Runner
	rooms string
	stdin []byte
}

func newDesk(t *testing.T, b *bench) *desk {
	t.Helper()
	d := &desk{bench: b, rooms: b.base + "/rooms"}
	var guard sandbox.EgressGuard
	if b.Guard != nil {
		guard = b.Guard(t, names(t))
	}
	var err error
	d.r, err = sandbox.New(sandbox.Config{
		Guard: guard, Backends: []sandbox.Backend{b.backend}, Dir: d.rooms, Grace: 100 * time.Millisecond, Now: time.Now,
		Stdin: func(palyra.Plan) ([]byte, error) { return d.stdin, nil },
		Size:  func(palyra.Plan) (int, int) { return 30, 100 },
	})
	check(t, err)
	t.Cleanup(func() {
		if err := d.r.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// plan is a plan for a program, as the process tool would make it.
func (d *desk) plan(t *testing.T, lower func(*palyra.Limits), argv ...string) palyra.Plan {
	t.Helper()
	path := argv[0]
	if !filepath.IsAbs(path) {
		path = "/usr/bin/" + path
	}
	path, err := filepath.EvalSymlinks(path)
	check(t, err)
	data, err := os.ReadFile(path)
	check(t, err)
	l := roomy
	l.WallMS, l.OutputBytes, l.EmittedBytes = patience.Milliseconds(), 64<<10, 32<<20
	if lower != nil {
		lower(&l)
	}
	holds, err := d.r.Promise(t.Context(), d.backend.Tier(), l)
	check(t, err)
	holds.Mechanisms = slices.DeleteFunc(holds.Mechanisms, func(m string) bool { return m == cell.SealedPaths }) // none are
	return palyra.Plan{
		Tool: "palyra.process.run", Arguments: []byte("{}"), Tier: d.backend.Tier(), Argv: argv, Cwd: d.ws, Limits: l, Enforcement: holds,
		Workspace:  palyra.WorkspaceRef{Path: d.ws, Owner: int64(d.who.uid), Known: true},
		Executable: palyra.Executable{Path: path, Digest: palyra.SumBytes(data), Sealed: strings.HasPrefix(path, d.ws)},
	}
}

// run grants a plan and runs it. Afterwards nothing may be left, running or on disk.
func (d *desk) run(t *testing.T, ctx context.Context, p palyra.Plan) palyra.Result {
	t.Helper()
	digest, err := p.Digest()
	check(t, err)
	c := &palyra.Call{ID: palyra.CallID("C" + random()), Plan: p, Digest: digest, Verdict: palyra.Verdict{Effect: palyra.Allow}}
	g, err := palyra.NewGrant("G1", c, time.Now())
	check(t, err)
	l, err := g.Confirm(p)
	check(t, err)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res := d.r.Run(ctx, l, c)
	if all := left(t, d.mark); len(all) > 0 {
		t.Errorf("%v: %d left: %s", p.Argv, len(all), clip(strings.Join(all, ", ")))
	}
	eventually(t, "the run's private directory is gone", func() bool {
		rooms, err := os.ReadDir(d.rooms)
		check(t, err)
		return len(rooms) == 0
	})
	return res
}

func throughRunner(t *testing.T, b *bench) {
	d := newDesk(t, b)
	for name, test := range map[string]func(*testing.T, *desk){
		"a result":           aResult,
		"bombs":              bombsThroughRunner,
		"a flood of output":  floodOfOutput,
		"the wall clock":     wallClock,
		"cancelled":          cancelled,
		"a daemon's streams": heldStreams,
		"a changed program":  changedProgram,
		"a terminal":         aTerminal,
		"another terminal":   otherTerminal,
		"a script":           aScript,
		"stdin":              boundStdin,
		"typing":             typing,
		"seals":              sealedResult,
		"a way out":          wayOut,
	} {
		t.Run(name, func(t *testing.T) {
			d.stdin = nil
			test(t, d)
		})
	}
}

func aResult(t *testing.T, d *desk) {
	p := d.plan(t, nil, d.probe, "fail", "7", "why")
	res := d.run(t, t.Context(), p)
	if res.Refusal != nil || res.Failure != nil || res.ExitCode != 7 || string(res.Stderr) != "why\n" {
		t.Errorf("%+v, %+v", res, res.Refusal)
	}
	if res.Executor != d.backend.Executor() || res.Enforcement.Mode != p.Enforcement.Mode ||
		!slices.Contains(res.Enforcement.Mechanisms, sandbox.Sealed) {
		t.Errorf("executor %s, %+v", res.Executor, res.Enforcement)
	}
	for _, m := range p.Enforcement.Mechanisms {
		if !slices.Contains(res.Enforcement.Mechanisms, m) {
			t.Errorf("%s was promised and did not hold", m)
		}
	}
	res = d.run(t, t.Context(), d.plan(t, nil, "touch", "made"))
	if st := owner(t, d.ws+"/made"); res.ExitCode != 0 || st != d.who.uid {
		t.Errorf("the file is of %d, want %d; %+v", st, d.who.uid, res.Refusal)
	}
}

func bombsThroughRunner(t *testing.T, d *desk) {
	ticks := d.ticker(t)
	for _, bomb := range []bomb{bombs[0], bombs[5]} {
		argv := strings.Fields(bomb.argv)
		argv[0] = d.probe
		res := d.run(t, t.Context(), d.plan(t, bomb.lower, argv...))
		if res.KillReason != palyra.Stop(bomb.limit) || res.Failure == nil || res.Failure.Reason != palyra.ReasonQuotaExceeded ||
			res.ExitCode == 0 {
			t.Errorf("%s: kill reason %q, failure %+v, refusal %+v, code %d", bomb.name, res.KillReason, res.Failure, res.Refusal, res.ExitCode)
		}
	}
	ticks.steady(t)
}

// floodOfOutput prints 1 GiB.
func floodOfOutput(t *testing.T, d *desk) {
	ticks := d.ticker(t)
	p := d.plan(t, nil, d.probe, "flood", "1024")
	res := d.run(t, t.Context(), p)
	if res.KillReason != "output" || res.Failure == nil || res.Failure.Reason != palyra.ReasonQuotaExceeded || !res.Truncated {
		t.Errorf("kill reason %q, failure %+v, truncated %v", res.KillReason, res.Failure, res.Truncated)
	}
	if n := int64(len(res.Stdout)); n > p.Limits.OutputBytes+100 || n == 0 {
		t.Errorf("%d bytes are delivered of at most %d", n, p.Limits.OutputBytes)
	}
	if n := res.Usage.BytesOut; n < p.Limits.EmittedBytes || n > 16*p.Limits.EmittedBytes {
		t.Errorf("%d bytes came out with a limit of %d", n, p.Limits.EmittedBytes)
	}
	ticks.steady(t)
}

// wallClock: the time is up once the program runs, however long its start took.
func wallClock(t *testing.T, d *desk) {
	ctx := &timeUp{Context: t.Context(), up: make(chan struct{})}
	defer d.whenBegun(t, func() { close(ctx.up) })()
	res := d.run(t, ctx, d.plan(t, nil, d.begins(t, `exec "$@" >begun`), d.probe, "spray", "5"))
	if !res.TimedOut || res.Cancelled || res.KillReason != "wall_clock" || res.Signal != "SIGKILL" {
		t.Errorf("timed out %v, cancelled %v, kill reason %q, signal %q, %+v", res.TimedOut, res.Cancelled, res.KillReason, res.Signal,
			res.Refusal)
	}
}

// timeUp is a context whose deadline is an event.
type timeUp struct {
	context.Context
	up chan struct{}
}

func (c *timeUp) Done() <-chan struct{} { return c.up }

func (c *timeUp) Err() error {
	select {
	case <-c.up:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func cancelled(t *testing.T, d *desk) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer d.whenBegun(t, cancel)()
	res := d.run(t, ctx, d.plan(t, nil, d.begins(t, `echo >begun; exec "$@"`), d.probe, "hop", "4", "4000", "stay"))
	if !res.Cancelled || res.TimedOut || res.KillReason != "cancelled" {
		t.Errorf("cancelled %v, timed out %v, kill reason %q, %+v", res.Cancelled, res.TimedOut, res.KillReason, res.Refusal)
	}
}

// begins is a program that becomes the one in its arguments; a file begun has something
// in it from then on, or from the first word of that program on.
func (d *desk) begins(t *testing.T, line string) string {
	t.Helper()
	script := d.file(t, "begins", "#!/bin/sh\n"+line+"\n")
	check(t, os.Chmod(script, 0o755))
	return script
}

// whenBegun does something once when such a program runs; one that never begins ends by
// the patience of run. The function that it returns ends the looking.
func (d *desk) whenBegun(t *testing.T, do func()) (end func()) {
	t.Helper()
	begun := filepath.Join(d.ws, "begun")
	check(t, os.RemoveAll(begun))
	over, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if fi, err := os.Stat(begun); err == nil && fi.Size() > 0 {
				do()
				return
			}
		}
	}()
	return func() { close(over); <-looked }
}

// heldStreams: what stays behind with the program's stdout holds up nobody.
func heldStreams(t *testing.T, d *desk) {
	res := d.run(t, t.Context(), d.plan(t, nil, d.probe, "daemon", "4", "keep"))
	if string(res.Stdout) != "ready\n" || res.ExitCode != 0 || res.Usage.WallMS > 5000 {
		t.Errorf("%q, code %d, %d ms", res.Stdout, res.ExitCode, res.Usage.WallMS)
	}
}

func changedProgram(t *testing.T, d *desk) {
	script := d.file(t, "script", "#!/bin/sh\ntouch changed\n")
	check(t, os.Chmod(script, 0o755))
	p := d.plan(t, nil, script)
	check(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch changed # later\n"), 0o755))
	refusedAsChanged(t, d, d.run(t, t.Context(), p))
}

func refusedAsChanged(t *testing.T, d *desk, res palyra.Result) {
	t.Helper()
	if res.Refusal == nil || res.Refusal.Reason != palyra.ReasonPlanChanged {
		t.Errorf("refusal %+v", res.Refusal)
	}
	if _, err := os.Stat(d.ws + "/changed"); err == nil {
		t.Error("it ran")
	}
}

func boundStdin(t *testing.T, d *desk) {
	d.stdin = []byte(strings.Repeat("line\n", 40_000)) // more than a pipe holds
	p := d.plan(t, nil, "wc", "-c")
	p.Stdin = string(palyra.SumBytes(d.stdin))
	res := d.run(t, t.Context(), p)
	if strings.TrimSpace(string(res.Stdout)) != "200000" {
		t.Errorf("%q, %+v", res.Stdout, res.Refusal)
	}
}
