package bubble

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
)

// family are the processes of a room, seen from outside.
func family(t testing.TB, first int) (pids []int) {
	t.Helper()
	pids = []int{first}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children(pids[i])...)
	}
	return pids
}

// bodyOf is the room of a running process: the bubblewrap that its template is in, that one, and its own first process.
func bodyOf(t testing.TB, p sandbox.Process) (bwrap, template, first int) {
	t.Helper()
	first = p.(*cells.Process).Pid()
	template = parent(t, first)
	return parent(t, template), template, first
}

const tree = "(sleep 1000 & setsid sleep 1000 & (trap '' TERM HUP INT; sleep 1000) & ) ; echo ready; sleep 1000"

func TestBackendStop(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		p := s.starts(b, "trap 'echo stopped; exit 5' TERM; echo ready; while :; do sleep 0.01; done")
		p.Stop("cancelled", 10*time.Second)
		if x := waitFor(t, p); x.Code != 5 || x.Stopped != "cancelled" || !strings.Contains(s.printed(), "stopped") {
			t.Errorf("with grace: %+v %s", x, s.printed())
		}
		p = s.starts(b, tree)
		_, _, first := bodyOf(t, p)
		all := family(t, first)
		p.Stop("wall_clock", 50*time.Millisecond)
		if x := waitFor(t, p); x.Signal == "" || x.Stopped != "wall_clock" {
			t.Errorf("without: %+v", x)
		}
		for _, pid := range all {
			if pid != first && lives(pid) {
				t.Errorf("%d of %v survived", pid, all)
			}
		}
	})
}

// TestBackendNothingIsLeft: what the program leaves behind is ended with it, and
// counted.
func TestBackendNothingIsLeft(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	x := runJob(t, b, s.job("/bin/sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 4"))
	if x.Code != 4 || x.Left != 2 {
		t.Errorf("%+v", x)
	}
}

func TestBackendSignal(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	p := s.starts(b, "trap 'echo int; exit 6' INT; echo ready; while :; do sleep 0.01; done")
	if err := p.Signal("SIGNONE"); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("%v", err)
	}
	if err := p.Signal("SIGINT"); err != nil {
		t.Error(err)
	}
	if x := waitFor(t, p); x.Code != 6 || !strings.Contains(s.printed(), "int") {
		t.Errorf("%+v %s", x, s.printed())
	}
	if err := p.Signal("SIGINT"); palyra.AsError(err).Reason != palyra.ReasonRunEnded {
		t.Errorf("%v", err)
	}
}

// TestBackendLimits: with cgroups where there are some, and without.
func TestBackendLimits(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		for _, mode := range []string{cells.CgroupAuto, cells.CgroupOff} {
			c := configOf(t)
			c.Cgroup = mode
			b := openBackend(t, c)
			for limit, script := range map[string]string{
				"memory":    "exec /usr/bin/python3 -c 'b=[]\nwhile len(b) < 400: b.append(bytearray(1<<20))'",
				"processes": "for i in $(seq 100); do sleep 100 & done; sleep 100",
				"cpu":       "while :; do :; done",
			} {
				s := newSite(t, who)
				j := s.job("/bin/sh", "-c", script)
				j.Limits = palyra.Limits{MemoryBytes: 64 << 20, Processes: 30, CPUMS: 30_000}
				if limit == "cpu" { // which a slow machine takes to reach the others
					j.Limits.CPUMS = 300
				}
				x := runJob(t, b, j)
				if limit == "processes" && x.Enforcement.Limits[limit] == "rlimit" && x.Limit == "" {
					if x.Left > 30+8 || x.Code == 0 { // no more could be made: that is the limit
						t.Errorf("%d processes: %+v", x.Left, x)
					}
					continue
				}
				if x.Limit != limit || (x.Signal == "" && x.Code == 0) {
					t.Errorf("%s, cgroups %s: %+v %s", limit, mode, x, palyra.Clip(s.printed(), 200))
				}
				if limit == "memory" && (x.Usage.PeakMemory < 32<<20 || x.Usage.PeakMemory > 256<<20) {
					t.Errorf("cgroups %s: the peak was %d", mode, x.Usage.PeakMemory)
				}
			}
		}
	})
}

// TestBackendFewProcesses: a limit below what the launcher needs for itself holds
// for the program.
func TestBackendFewProcesses(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	j := s.job("/bin/sh", "-c", "sleep 0.2; exit 0")
	j.Limits.Processes = 4
	if x := runJob(t, b, j); x.Code != 0 || x.Limit != "" {
		t.Errorf("%+v", x)
	}
	j = s.job("/bin/sh", "-c", "for i in $(seq 20); do sleep 100 & done; wait")
	j.Limits.Processes = 4
	if x := runJob(t, b, j); x.Limit != "processes" && (x.Enforcement.Limits["processes"] != "rlimit" || x.Left > 4+8 || x.Code == 0) {
		t.Errorf("%+v", x)
	}
}

// TestBackendContext bounds the start only.
func TestBackendContext(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	ctx, cancel := context.WithCancel(t.Context())
	p, err := b.Start(ctx, s.job("/bin/sh", "-c", "sleep 0.3; exit 4"))
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if x := waitFor(t, p); x.Code != 4 {
		t.Errorf("%+v", x)
	}
}

// TestBackendLostCell: the tree ends with process 1 of the room whoever kills it, and with the
// template; the run is reported as interrupted, and what it made of sealed paths is taken
// away. Without bubblewrap the room goes on, and without one room the others.
func TestBackendLostCell(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		beside := s.starts(b, tree)
		p := s.starts(b, "echo x > .envrc; "+tree)
		_, template, first := bodyOf(t, p)
		all := family(t, first)
		if err := unix.Kill(first, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		x, err := p.Wait()
		if palyra.AsError(err).Reason != palyra.ReasonInterrupted || !slices.Equal(x.Quarantined, []string{".envrc"}) ||
			exists(s.workspace+"/.envrc") {
			t.Errorf("%+v, %v", x, err)
		}
		for _, pid := range all {
			if lives(pid) {
				t.Errorf("%d of %v survived", pid, all)
			}
		}
		if _, _, other := bodyOf(t, beside); !lives(other) || !lives(template) {
			t.Error("another room ended, or the template")
		}
		beside.Stop("cancelled", 0)
		waitFor(t, beside)

		p = s.starts(b, "echo ready; while [ ! -e go ]; do sleep 0.01; done; exit 7")
		var bwrap int
		bwrap, template, first = bodyOf(t, p)
		if err := unix.Kill(bwrap, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the template is ours", func() bool { return slices.Contains(children(os.Getpid()), template) })
		s.file("go", "")
		if x := waitFor(t, p); x.Code != 7 {
			t.Errorf("without bubblewrap: %+v", x)
		}
		eventually(t, "process 1 is reaped", func() bool { return errors.Is(unix.Kill(first, 0), unix.ESRCH) })

		p = s.starts(b, tree)
		_, template, first = bodyOf(t, p)
		all = family(t, first)
		if err := unix.Kill(template, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); palyra.AsError(err).Reason != palyra.ReasonInterrupted {
			t.Errorf("%v", err)
		}
		for _, pid := range all {
			if lives(pid) {
				t.Errorf("%d of %v survived", pid, all)
			}
		}
		// its last threads may end after those that its rooms die with
		eventually(t, "the template is gone", func() bool { return !lives(template) })
		if x := runJob(t, b, s.trueJob()); x.Code != 0 { // in another one
			t.Errorf("afterwards: %+v", x)
		}
	})
}

// TestBackendStuckCell: one that does not answer is given up, and its tree ended.
func TestBackendStuckCell(t *testing.T) {
	t.Parallel() // it waits for long
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	p := s.starts(b, tree)
	_, _, first := bodyOf(t, p)
	all := family(t, first)
	if err := unix.Kill(first, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := p.Wait(); done <- err }()
	p.Stop("cancelled", 0)
	if err := <-done; palyra.AsError(err).Reason != palyra.ReasonInterrupted {
		t.Errorf("%v", err)
	}
	for _, pid := range all {
		if lives(pid) {
			t.Errorf("%d of %v survived", pid, all)
		}
	}
}

// TestBackendStuckAtALimit: one that does not answer when its program is over a limit is ended, and the limit is named.
func TestBackendStuckAtALimit(t *testing.T) {
	t.Parallel() // it waits for long
	c := configOf(t)
	c.Cgroup = cells.CgroupOff
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	j := s.job("/bin/sh", "-c", "sleep 1; while :; do :; done")
	j.Limits = palyra.Limits{CPUMS: 300}
	p := celltest.Start(t, b, j)
	_, _, first := bodyOf(t, p)
	if err := unix.Kill(first, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if x, err := p.Wait(); err != nil || x.Limit != "cpu" || x.Signal != "SIGKILL" || lives(first) {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestBackendLimitsBesideOthers: runs that begin one after the other do not put off the look at another one's limits.
func TestBackendLimitsBesideOthers(t *testing.T) {
	c := configOf(t)
	c.Cgroup = cells.CgroupOff
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	j := s.job("/bin/sh", "-c", "while :; do (while :; do :; done) & wait; done")
	j.Limits = palyra.Limits{MemoryBytes: 1 << 30, CPUMS: 500}
	p := celltest.Start(t, b, j)
	type ending struct {
		x   sandbox.Exit
		err error
	}
	done := make(chan ending, 1)
	go func() { x, err := p.Wait(); done <- ending{x, err} }()
	late := time.After(20 * time.Second)
	for beside := 0; ; beside++ {
		runJob(t, b, s.trueJob())
		select {
		case e := <-done:
			if e.err != nil || e.x.Limit != "cpu" || beside < 3 {
				t.Errorf("%+v, %v, beside %d others", e.x, e.err, beside)
			}
			return
		case <-late:
			t.Fatalf("not ended beside %d others", beside)
		default:
		}
	}
}

func TestBackendClose(t *testing.T) {
	c := configOf(t)
	c.Warm = 2
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	p := s.starts(b, "trap '' TERM; echo ready; sleep 1000")
	eventually(t, "the pool is full", func() bool { return b.pool.idle() == 2 })
	var idle []int
	for _, k := range b.pool.shelves[0].idle {
		first := k.Body.Pid()
		idle = append(idle, first, parent(t, first), parent(t, parent(t, first)))
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if x := waitFor(t, p); x.Stopped != "stopping" || x.Signal != "SIGKILL" {
		t.Errorf("the running one: %+v", x)
	}
	for _, pid := range idle {
		if lives(pid) {
			t.Errorf("the idle cell %d is left", pid)
		}
	}
	if _, err := b.Start(t.Context(), s.job("/bin/true")); palyra.AsError(err).Reason != palyra.ReasonStopping {
		t.Errorf("start after close: %v", err)
	}
}
