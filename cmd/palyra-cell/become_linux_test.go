package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
)

// direct is a cell whose launcher has its run from the daemon.
var direct = who{name: "direct", uid: os.Getuid(), direct: true}

// become is a Spec of the user that launchers become in tests.
func become(s cell.Spec) cell.Spec {
	if os.Getuid() == 0 {
		s.Identity = &cell.Identity{UID: ordinary, GID: ordinary}
	}
	return s
}

// state is the line of /proc/PID/status that begins with name.
func state(pid int, name string) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == name+":" {
			return strings.Join(f[1:], " ")
		}
	}
	return ""
}

// A launcher that waits is the user, without capabilities and under the filter, and nobody of that user sees into it.
func TestBecome(t *testing.T) {
	h := start(t, direct)
	s := become(shell("id -u; grep Seccomp: /proc/self/status"))
	h.become(s)
	pid := h.ready.Launcher
	until(t, "the filter", func() bool { return state(pid, "Seccomp") == "2" })
	if os.Getuid() == 0 {
		id := strconv.Itoa(ordinary)
		for name, want := range map[string]string{
			"Uid": strings.Repeat(" "+id, 4)[1:], "Gid": strings.Repeat(" "+id, 4)[1:], "Groups": "",
			"CapEff": strings.Repeat("0", 16), "CapPrm": strings.Repeat("0", 16), "CapBnd": strings.Repeat("0", 16), "NoNewPrivs": "1",
		} {
			if got := state(pid, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		st, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil || st.Sys() == nil {
			t.Fatal(err)
		}
		var raw unix.Stat_t
		if err := unix.Stat(filepath.Join("/proc", strconv.Itoa(pid), "environ"), &raw); err != nil || raw.Uid != 0 {
			t.Errorf("its files in /proc belong to %d: %v", raw.Uid, err)
		}
	}
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	_ = stdin.Close()
	h.give(s, s, in, out, null(t))
	h.expect(cell.ReportStarted)
	if got := <-drain(stdout); !strings.Contains(got, "Seccomp:\t2") || os.Getuid() == 0 && !strings.HasPrefix(got, strconv.Itoa(ordinary)) {
		t.Errorf("it said %q", got)
	}
	h.expect(cell.ReportExited)
	h.expect(cell.ReportEnded)
}

// The limits of a run count, also if the launcher is faster than they are.
func TestLimitsOfGiven(t *testing.T) {
	h := start(t, direct)
	s := become(shell("while :; do :; done"))
	h.become(s)
	image, err := cell.Given(&s, &s)
	if err != nil {
		t.Fatal(err)
	}
	var rules ruleset.Set
	defer rules.Forget()
	if err := rules.Complete(&s.Landlock); err != nil {
		t.Fatal(err)
	}
	n := int(null(t).Fd())
	if err := h.line.SendBytes([]byte{cell.LineRun}, rules.FD(), n, n, n, int(image.Fd())); err != nil {
		t.Fatal(err)
	}
	_ = image.Close()
	until(t, "the program", func() bool { return strings.Contains(state(h.ready.Launcher, "Name"), "sh") })
	h.send(cell.Order{Kind: cell.OrderWatch, Watch: &cell.Watch{EveryMS: 5, CPUMS: 50}})
	h.expect(cell.ReportStarted)
	h.expect(cell.ReportExited)
	if r := h.expect(cell.ReportEnded); r.Limit != "cpu" {
		t.Errorf("%+v", r)
	}
}

// A launcher that waits ends with the daemon's end of its socket, and with its supervisor.
func TestBecameEnds(t *testing.T) {
	h := start(t, direct)
	h.become(become(shell("true")))
	until(t, "the filter", func() bool { return state(h.ready.Launcher, "Seccomp") == "2" })
	_ = h.line.Close()
	if r := h.expect(cell.ReportFailed); r.Step != "launcher" {
		t.Errorf("%+v", r)
	}
	if os.Getuid() != 0 {
		return
	}
	h = start(t, direct)
	h.become(become(shell("true")))
	until(t, "the filter", func() bool { return state(h.ready.Launcher, "Seccomp") == "2" })
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool {
		return unix.Kill(h.ready.Launcher, 0) == unix.ESRCH || state(h.ready.Launcher, "State") == "Z (zombie)"
	})
}

// What makes no sense at a launcher that became its user, or about it, runs nothing.
func TestBecameNonsense(t *testing.T) {
	s := become(shell("true"))
	n := int(null(t).Fd())
	line := func(word string, fds ...int) func(*held) {
		return func(h *held) { _ = h.line.SendBytes([]byte(word), fds...) }
	}
	order := func(o cell.Order, files ...*os.File) func(*held) {
		return func(h *held) {
			var fds []int
			for _, f := range files {
				fds = append(fds, int(f.Fd()))
			}
			_ = h.conn.Send(o, fds...)
		}
	}
	for name, c := range map[string]struct {
		do   func(*held)
		step string
	}{
		"an unknown word":        {line("x", n, n, n, n, n), "protocol"},
		"nothing with it":        {line("r"), "protocol"},
		"no image":               {line("r", n, n, n, n), "protocol"},
		"one too many":           {line("r", n, n, n, n, n, n), "image"},
		"far too many":           {line("r", n, n, n, n, n, n, n, n), ""},
		"no image at all":        {line("r", n, n, n, n, n), "image"},
		"a spec for an image":    {line("r", n, n, n, n, int(specFile(t, s).Fd())), "image"},
		"no ruleset":             {line("r", n, n, n, n, int(imageOf(t, s).Fd())), "landlock"},
		"a run from the cell":    {order(cell.Order{Kind: cell.OrderRun}, specFile(t, s), null(t), null(t), null(t)), "protocol"},
		"somebody else":          {order(cell.Order{Kind: cell.OrderBecome}, specFile(t, s)), "protocol"},
		"no limits":              {order(cell.Order{Kind: cell.OrderWatch}), "protocol"},
		"limits that are none":   {order(cell.Order{Kind: cell.OrderWatch, Watch: &cell.Watch{EveryMS: -1}}), "spec"},
		"limits with files":      {order(cell.Order{Kind: cell.OrderWatch, Watch: &cell.Watch{}}, null(t)), "protocol"},
		"a signal before it ran": {order(cell.Order{Kind: cell.OrderSignal, Signal: 15}), "protocol"},
	} {
		h := start(t, direct)
		h.become(s)
		until(t, "the filter", func() bool { return state(h.ready.Launcher, "Seccomp") == "2" })
		if c.do(h); c.step == "" {
			c.step = "launcher"
		}
		if r := h.expect(cell.ReportFailed); r.Step != c.step {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// imageOf is what a launcher is given of a Spec that it became.
func imageOf(t *testing.T, s cell.Spec) *os.File {
	t.Helper()
	f, err := cell.Given(&s, &s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
