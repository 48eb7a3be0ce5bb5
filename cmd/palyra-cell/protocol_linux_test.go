package main

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/first"
)

// specFile is a Spec ready to be sent.
func specFile(t *testing.T, s cell.Spec) *os.File {
	t.Helper()
	f, err := cell.WriteSpec(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// sealed is a sealed memfd with any text, and then zeros up to size.
func sealed(t *testing.T, text string, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("spec", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "spec")
	t.Cleanup(func() { _ = f.Close() })
	if _, err = f.WriteString(text); err == nil && size > 0 {
		err = f.Truncate(size)
	}
	if err == nil && seals != 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A packet that makes no sense ends an idle cell, with a word about it.
func TestMalformedPackets(t *testing.T) {
	zero := int(null(t).Fd())
	for name, send := range map[string]func(c *cell.Conn) error{
		"not a packet":    func(c *cell.Conn) error { return c.SendBytes([]byte("run")) },
		"a zero":          func(c *cell.Conn) error { return c.SendBytes([]byte{0}) },
		"a report":        func(c *cell.Conn) error { return c.Send(cell.Report{Kind: "stop"}) },
		"an unknown kind": func(c *cell.Conn) error { return c.Send(cell.Order{Kind: "leave"}) },
		"no kind":         func(c *cell.Conn) error { return c.Send(cell.Order{}) },
		"a signal first":  func(c *cell.Conn) error { return c.Send(cell.Order{Kind: cell.OrderSignal, Signal: 9}) },
		"a size first":    func(c *cell.Conn) error { return c.Send(cell.Order{Kind: cell.OrderResize, Rows: 1, Cols: 1}) },
		"a stop with descriptors": func(c *cell.Conn) error {
			return c.Send(cell.Order{Kind: cell.OrderStop}, zero)
		},
		"a user from nowhere":       func(c *cell.Conn) error { return c.Send(cell.Order{Kind: cell.OrderBecome}) },
		"a user without a socket":   func(c *cell.Conn) error { return c.Send(cell.Order{Kind: cell.OrderBecome}, zero) },
		"limits without a run":      func(c *cell.Conn) error { return c.Send(cell.Order{Kind: cell.OrderWatch, Watch: &cell.Watch{}}) },
		"a run without descriptors": func(c *cell.Conn) error { return c.Send(cell.Order{Kind: cell.OrderRun}) },
		"a run with three":          func(c *cell.Conn) error { return c.Send(cell.Order{Kind: cell.OrderRun}, zero, zero, zero) },
		"a run with six": func(c *cell.Conn) error {
			return c.Send(cell.Order{Kind: cell.OrderRun}, zero, zero, zero, zero, zero, zero)
		},
	} {
		h := start(t, me)
		if err := send(h.conn.(cell.Orders).Conn); err != nil {
			t.Fatal(err)
		}
		if r := h.expect(cell.ReportFailed); r.Step != "protocol" || r.Text == "" {
			t.Errorf("%s: %+v", name, r)
		}
		if code := h.code(); code != refused {
			t.Errorf("%s: exit %d", name, code)
		}
	}
}

// The same while a program runs: its tree is ended, and the report does not
// claim that nothing ran.
func TestMalformedPacketWhileRunning(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		for _, packet := range []any{
			cell.Report{},
			cell.Order{Kind: cell.OrderResize},
			cell.Order{Kind: cell.OrderSignal, Signal: 65},
			cell.Order{Kind: "leave"},
		} {
			m := mark()
			h := start(t, w)
			h.order(shell(litter(m) + "sleep " + m))
			h.expect(cell.ReportStarted)
			until(t, "the litter", func() bool { return marked("sleep\x00"+m) == littered+1 })
			if err := h.conn.(cell.Orders).Conn.Send(packet); err != nil {
				t.Fatal(err)
			}
			h.expect(cell.ReportExited)
			if r := h.expect(cell.ReportEnded); r.Stopped != "protocol" || marked(m) != 0 {
				t.Errorf("%+v: %+v", packet, r)
			}
			if code := h.code(); code != refused {
				t.Errorf("exit %d", code)
			}
		}
	})
}

func TestSecondRun(t *testing.T) {
	h := start(t, me)
	h.order(shell("sleep 1000"))
	h.expect(cell.ReportStarted)
	h.order(shell("sleep 1000"))
	h.expect(cell.ReportExited)
	if r := h.expect(cell.ReportEnded); r.Stopped != "protocol" {
		t.Errorf("%+v", r)
	}
}

// Only a sealed Spec of our version and size is read.
func TestBadSpecs(t *testing.T) {
	const all = unix.F_SEAL_SEAL | unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	good, err := os.ReadFile("/proc/self/fd/" + strconv.Itoa(int(specFile(t, shell("exit 0")).Fd())))
	if err != nil || good[0] != cell.Version*2 {
		t.Fatalf("%q, %v", good, err)
	}
	next := append([]byte{good[0] + 2}, good[1:]...)
	plain, err := os.CreateTemp(t.TempDir(), "spec")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = plain.Write(good)
	for name, f := range map[string]*os.File{
		"a file":          plain,
		"not sealed":      sealed(t, string(good), 0, 0),
		"sealed in part":  sealed(t, string(good), 0, unix.F_SEAL_SEAL|unix.F_SEAL_WRITE|unix.F_SEAL_GROW),
		"empty":           sealed(t, "", 0, all),
		"too large":       sealed(t, string(good), cell.MaxSpec+1, all),
		"another version": sealed(t, string(next), 0, all),
		"nonsense":        sealed(t, "{", 0, all),
		"two":             sealed(t, string(good)+string(good), 0, all),
		"zeros behind it": sealed(t, string(good), 4096, all),
		"a pipe's":        null(t),
	} {
		h := start(t, me)
		h.send(cell.Order{Kind: cell.OrderRun}, int(f.Fd()), int(null(t).Fd()), int(null(t).Fd()), int(null(t).Fd()))
		if r := h.expect(cell.ReportFailed); r.Step != "spec" || r.Text == "" {
			t.Errorf("%s: %+v", name, r)
		}
		if code := h.code(); code != refused {
			t.Errorf("%s: exit %d", name, code)
		}
	}
}

// A cell that is not started as one says so and does nothing.
func TestNoSocket(t *testing.T) {
	for _, files := range [][]*os.File{nil, {null(t)}} {
		c := exec.Command(built, "supervise")
		c.ExtraFiles = files
		out, err := c.CombinedOutput()
		if err == nil || c.ProcessState.ExitCode() != refused || strings.Count(string(out), "\n") != 1 ||
			!strings.HasPrefix(string(out), "palyra-cell: ") {
			t.Errorf("%v, %q", err, out)
		}
	}
}

// The launcher alone, with packets that its supervisor would never send: it says why, or just ends, and runs nothing.
func TestLauncherPackets(t *testing.T) {
	runtime.LockOSThread() // a launcher ends with the thread that made it
	defer runtime.UnlockOSThread()
	n := int(null(t).Fd())
	sealed, plain := shell("true"), shell("true")
	sealed.Sealed = true
	for name, c := range map[string]struct {
		fds   []int
		word  string
		image []byte
		step  string // empty: it just ends
	}{
		"no descriptors":     {nil, "r", nil, "protocol"},
		"two":                {[]int{n, n}, "r", nil, "protocol"},
		"too many":           {[]int{n, n, n, n, n, n, n}, "r", nil, ""},
		"too long":           {[]int{n, n, n, n}, "rr", nil, "protocol"},
		"far too long":       {[]int{n, n, n, n}, strings.Repeat("r", 300), nil, ""},
		"an unknown word":    {[]int{n, n, n, n}, "x", nil, "protocol"},
		"no image":           {[]int{n, n, n, n}, "r", nil, "image"},
		"no program":         {[]int{n, n, n, n}, "r", cell.LauncherImage(&sealed, false), "protocol"},
		"a program too many": {[]int{n, n, n, n, n}, "r", cell.LauncherImage(&plain, false), "protocol"},
		"no ruleset":         {[]int{n, n, n, n}, "r", cell.LauncherImage(&plain, false), "landlock"},
	} {
		ours, theirs, err := cell.Pair()
		if err != nil {
			t.Fatal(err)
		}
		l, err := first.NewLauncher()
		if err != nil {
			t.Fatal(err)
		}
		pid, err := l.Fork(theirs, nil, nil, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		_ = theirs.Close()
		if err := l.Load(c.image); err != nil {
			t.Fatal(err)
		}
		var oob []byte
		if len(c.fds) > 0 {
			oob = unix.UnixRights(c.fds...)
		}
		if err := unix.Sendmsg(int(ours.Fd()), []byte(c.word), oob, nil, 0); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		got, _ := ours.Read(buf)
		switch {
		case got == 0 && c.step == "":
		case got == 0 || buf[0] != cell.LineFailed || parseFailure(buf[1:got]).step != c.step:
			t.Errorf("%s: %q", name, buf[:got])
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || !status.Exited() {
			t.Errorf("%s: %v, %v", name, status, err)
		}
		l.Close()
		_ = ours.Close()
	}
}

// A launcher that dies by itself is a failure, idle or not.
func TestLauncherDies(t *testing.T) {
	h := start(t, me)
	if err := unix.Kill(h.ready.Launcher, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := h.expect(cell.ReportFailed); r.Step != "launcher" || r.Text == "" {
		t.Errorf("%+v", r)
	}
	if code := h.code(); code != refused {
		t.Errorf("exit %d", code)
	}
}
