package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

var marks atomic.Int64

// mark is a number of seconds that no other process of this machine sleeps.
func mark() string { return fmt.Sprintf("9%d%04d", os.Getpid(), marks.Add(1)) }

func TestExit(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		for _, c := range []struct {
			script string
			want   cell.Report
		}{
			{"exit 0", cell.Report{Kind: cell.ReportExited}},
			{"exit 7", cell.Report{Kind: cell.ReportExited, Code: 7}},
			{"kill -KILL $$", cell.Report{Kind: cell.ReportExited, Signal: int(unix.SIGKILL)}},
			{"kill -TERM $$", cell.Report{Kind: cell.ReportExited, Signal: int(unix.SIGTERM)}},
		} {
			exited, ended, out := finished(t, w, shell("echo out; echo err >&2; "+c.script))
			if exited != c.want || out != "out\nerr\n" {
				t.Errorf("%s: %+v, %q", c.script, exited, out)
			}
			if ended.Limit != "" || ended.Stopped != "" || ended.Killed != 0 || ended.Usage.Processes < 1 || ended.Usage.PeakMemory <= 0 {
				t.Errorf("%s: %+v", c.script, ended)
			}
		}
	})
}

// litter starts processes in every way that leaves their parent: background, own
// session, orphaned twice over, deaf to signals.
func litter(m string) string {
	return `trap "" TERM HUP INT
sleep ` + m + ` &
(sleep ` + m + ` &)
setsid sh -c 'trap "" TERM; setsid sleep ` + m + ` & sleep ` + m + ` &'
( ( setsid sh -c 'sleep ` + m + `' & ) & )
`
}

const littered = 5

func TestNothingIsLeft(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		m := mark()
		h := start(t, w)
		h.order(shell(litter(m) + "read line; exit 3"))
		h.expect(cell.ReportStarted)
		until(t, "the litter", func() bool { return marked("sleep\x00"+m) == littered })
		_, _ = h.stdin.WriteString("\n")
		if r := h.expect(cell.ReportExited); r.Code != 3 {
			t.Errorf("%+v", r)
		}
		r := h.expect(cell.ReportEnded)
		if n := marked(m); n != 0 {
			t.Errorf("%d processes are left", n)
		}
		if r.Killed < littered || r.Limit != "" || r.Stopped != "" {
			t.Errorf("%+v", r)
		}
		if code := h.code(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
}

// Several may end at once, with others still there: none of the ends may be taken
// for the last.
func TestEndsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		gone, left := mark(), mark()
		h := start(t, w)
		h.order(shell(`(sleep ` + left + ` & sleep ` + gone + ` &); read line`))
		h.expect(cell.ReportStarted)
		until(t, "both", func() bool { return marked("sleep\x00"+gone) == 1 && marked("sleep\x00"+left) == 1 })
		if err := h.cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.cmd.Process.Signal(unix.SIGCONT) }) // or nobody could wait for it
		until(t, "the cell to stand still", func() bool {
			for _, s := range threads(t, h.cmd.Process.Pid) {
				if !strings.HasPrefix(s["State"], "T") {
					return false
				}
			}
			return true
		})
		kill(t, "sleep\x00"+gone)
		_, _ = h.stdin.WriteString("\n")
		stat := "/proc/" + strconv.Itoa(h.ready.Launcher) + "/stat"
		until(t, "the program's end", func() bool { b, _ := os.ReadFile(stat); return strings.Contains(string(b), ") Z ") })
		if err := h.cmd.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		h.expect(cell.ReportExited)
		if r := h.expect(cell.ReportEnded); r.Killed != 1 || marked(left) != 0 {
			t.Errorf("%+v, and %d left", r, marked(left))
		}
	})
}

func TestStop(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		for _, c := range []struct {
			name, script string
			orders       []cell.Order
			signal, code int
		}{
			{
				"politely", `trap 'exit 5' TERM; echo; while :; do sleep 0.01; done`,
				[]cell.Order{{Kind: cell.OrderStop, Reason: "because", GraceMS: 60_000}},
				0, 5,
			},
			{"deaf", `trap "" TERM; echo; while :; do sleep 1000; done`, []cell.Order{{Kind: cell.OrderStop, Reason: "because", GraceMS: 50}}, 9, 0},
			{"twice", `trap "" TERM; echo; while :; do sleep 1000; done`, []cell.Order{
				{Kind: cell.OrderStop, Reason: "because", GraceMS: 60_000},
				{Kind: cell.OrderStop, Reason: "again"},
			}, 9, 0},
			{"less patient", `trap "" TERM; echo; while :; do sleep 1000; done`, []cell.Order{
				{Kind: cell.OrderStop, Reason: "because", GraceMS: 60},
				{Kind: cell.OrderStop, Reason: "again", GraceMS: 60_000},
			}, 9, 0},
			{"stopped already", `echo; kill -STOP $$`, []cell.Order{{Kind: cell.OrderStop, Reason: "because", GraceMS: 50}}, 9, 0},
		} {
			m := mark()
			h := start(t, w)
			out, theirs := pipe(t)
			h.orderWith(shell(litter(m)+c.script), null(t), theirs, null(t))
			h.expect(cell.ReportStarted)
			until(t, "the litter", func() bool { return marked("sleep\x00"+m) == littered })
			_, _ = out.Read(make([]byte, 1)) // its traps are set
			for _, o := range c.orders {
				h.send(o)
			}
			exited, ended := h.expect(cell.ReportExited), h.expect(cell.ReportEnded)
			if exited.Signal != c.signal || exited.Code != c.code || ended.Stopped != "because" || ended.Limit != "" {
				t.Errorf("%s: %+v, %+v", c.name, exited, ended)
			}
			if n := marked(m); n != 0 {
				t.Errorf("%s: %d processes are left", c.name, n)
			}
		}
	})
}

func null(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A stop may come at any moment of a launch. Failed must still mean that nothing
// ran.
func TestStopWhileLaunching(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		dir := public(t)
		for i := range 40 {
			ran := filepath.Join(dir, strconv.Itoa(i))
			h := start(t, w)
			h.order(shell("echo > " + ran + "; sleep 1000"))
			h.send(cell.Order{Kind: cell.OrderStop, Reason: "early"})
			switch r := h.next(); r.Kind {
			case cell.ReportFailed:
				if _, err := os.Stat(ran); err == nil || r.Step != "stopped" || r.Text != "early" {
					t.Errorf("it ran, or %+v", r)
				}
				if code := h.code(); code != refused {
					t.Errorf("exit %d", code)
				}
			case cell.ReportStarted:
				if exited, ended := h.expect(cell.ReportExited), h.expect(cell.ReportEnded); exited.Signal != 9 || ended.Stopped != "early" {
					t.Errorf("%+v, %+v", exited, ended)
				}
			default:
				t.Fatalf("%+v", r)
			}
		}
	})
}

func TestStopWhileIdle(t *testing.T) {
	h := start(t, me)
	h.send(cell.Order{Kind: cell.OrderStop, Reason: "not needed"})
	if r := h.expect(cell.ReportFailed); r.Step != "stopped" || r.Text != "not needed" {
		t.Errorf("%+v", r)
	}
	if h.code() != refused {
		t.Error("it did not end as refused")
	}
}

func TestSignal(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		h := start(t, w)
		out, theirs := pipe(t)
		h.orderWith(shell(`trap 'exit 4' USR1; echo; while :; do sleep 0.01; done`), null(t), theirs, null(t))
		h.expect(cell.ReportStarted)
		_, _ = out.Read(make([]byte, 1))
		h.send(cell.Order{Kind: cell.OrderSignal, Signal: int(unix.SIGUSR1)})
		if r := h.expect(cell.ReportExited); r.Code != 4 {
			t.Errorf("%+v", r)
		}
		// Late for the program, and nobody's fault.
		_ = h.conn.Send(cell.Order{Kind: cell.OrderSignal, Signal: int(unix.SIGUSR1)})
		h.expect(cell.ReportEnded)
	})
}

// A signal that comes while the launcher still is itself is for the program.
func TestSignalWhileLaunching(t *testing.T) {
	for range 20 {
		h := start(t, me)
		h.order(shell("sleep 1000"))
		h.send(cell.Order{Kind: cell.OrderSignal, Signal: int(unix.SIGTERM)})
		h.expect(cell.ReportStarted)
		if r := h.expect(cell.ReportExited); r.Signal != int(unix.SIGTERM) {
			t.Errorf("%+v", r)
		}
		h.expect(cell.ReportEnded)
	}
}

func TestDaemonGone(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		m := mark()
		h := start(t, w)
		h.order(shell(litter(m) + "sleep " + m))
		h.expect(cell.ReportStarted)
		until(t, "the litter", func() bool { return marked("sleep\x00"+m) == littered+1 })
		_ = h.conn.Close()
		_ = h.cmd.Wait()
		if n := marked(m); n != 0 {
			t.Errorf("%d processes outlive the cell", n)
		}

		idle := start(t, w)
		_ = idle.conn.Close()
		_ = idle.cmd.Wait()
		if unix.Kill(idle.ready.Launcher, 0) == nil {
			t.Error("the launcher outlives its cell")
		}
	})
}

// The daemon is killed so that it can do nothing about it.
func TestDaemonKilled(t *testing.T) {
	m := mark()
	daemon := exec.Command(mirror, "inside:daemon", built, litter(m)+"sleep "+m)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the litter", func() bool { return marked("sleep\x00"+m) == littered+1 })
	_ = daemon.Process.Kill()
	_ = out.Close()
	_ = daemon.Wait()
	until(t, "their end", func() bool { return marked(m) == 0 })
}

// Killing the supervisor itself is not how a tree ends, but its program, at
// least, goes with it.
func TestSupervisorKilled(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		m := mark()
		h := start(t, w)
		s := open("/bin/sleep", m)
		if w.uid == 0 {
			s.Identity = &cell.Identity{UID: ordinary, GID: ordinary} // which clears the death signal once
		}
		h.order(s)
		h.expect(cell.ReportStarted)
		until(t, "the sleep", func() bool { return marked(m) == 1 })
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		until(t, "its end", func() bool { return marked(m) == 0 })
	})
}

// What a terminal or an init sends to everyone must not end the supervisor
// before its tree.
func TestSupervisorIgnoresSignals(t *testing.T) {
	h := start(t, me)
	h.order(shell("read line; exit 6"))
	h.expect(cell.ReportStarted)
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGPIPE} {
		if err := h.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = h.stdin.WriteString("\n")
	if r := h.expect(cell.ReportExited); r.Code != 6 {
		t.Errorf("%+v", r)
	}
	h.expect(cell.ReportEnded)
}

// A cell that waits costs next to nothing.
func TestIdleIsQuiet(t *testing.T) {
	h := start(t, me)
	tr, err := newTree(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(100 * time.Millisecond)
	for _, pid := range []int{h.cmd.Process.Pid, h.ready.Launcher} {
		if p, ok := tr.read(pid); !ok || p.own > 20 {
			t.Errorf("%+v", p)
		}
	}
}
