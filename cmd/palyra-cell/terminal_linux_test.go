package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// terminal makes a pty of the given size that every user may open.
func terminal(t *testing.T, rows, cols uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = slave.Chmod(0o666)
	t.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
	return master, slave
}

// A terminal is the program's controlling one, with its size, a key that
// interrupts, and a size that changes.
func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		master, slave := terminal(t, 31, 97)
		// Without an echo: the kernel sends the signal of a key before it echoes the key, and what the program prints about
		// it can come first. And the program ends only when its last word was read: a terminal whose session's leader ends
		// forgets what the kernel has not passed on yet.
		s := shell(`stty -echo; stty size < /dev/tty; test -t 0 && test -t 1 && test -t 2 && echo three
			trap 'stty size; echo sized' WINCH; trap 'echo interrupted; read x; exit 8' INT; echo waiting; while :; do sleep 0.01; done`)
		s.Terminal = true
		h := start(t, w)
		out := bufio.NewScanner(master)
		h.orderWith(s, slave, dup(t, slave), dup(t, slave))
		h.expect(cell.ReportStarted)
		seen(t, out, "31 97", "three", "waiting")
		if !w.direct {
			h.send(cell.Order{Kind: cell.OrderResize, Rows: 12, Cols: 34})
		} else if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 34}); err != nil {
			t.Fatal(err)
		}
		seen(t, out, "12 34", "sized")
		if _, err := master.Write([]byte{3}); err != nil {
			t.Fatal(err)
		}
		seen(t, out, "interrupted")
		if _, err := master.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
		if r := h.expect(cell.ReportExited); r.Code != 8 {
			t.Errorf("%+v", r)
		}
		h.expect(cell.ReportEnded)
		if out.Scan() {
			t.Errorf("after the end: %q", out.Text())
		}
	})
}

// The terminal can be opened again by every name that programs have for it, and no
// other can, also where the rules say nothing of terminals.
func TestTerminalOpenedAgain(t *testing.T) {
	const see = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rules := []cell.Rule{
		{Path: "/usr", Access: see},
		{Path: "/lib", Access: see},
		{Path: "/lib64", Access: see, Optional: true},
		{Path: "/bin", Access: see},
		{Path: "/dev/tty", Access: handled()},
	}
	reopen := func(t *testing.T, h *held, cwd string) {
		t.Helper()
		master, slave := terminal(t, 31, 97)
		_, other := terminal(t, 1, 1)
		s := shell(`for f in /dev/tty /dev/stdout /dev/stderr /proc/self/fd/0; do echo to $f > $f; done; read x < /dev/stdin; echo read $x
			stty size < /dev/stdin; cat < ` + other.Name() + ` || echo closed; echo end; read x`)
		s.Terminal, s.Cwd = true, cwd
		s.Landlock.Rules = rules
		out := bufio.NewScanner(master)
		h.orderWith(s, slave, dup(t, slave), dup(t, slave))
		h.expect(cell.ReportStarted)
		seen(t, out, "to /dev/tty", "to /dev/stdout", "to /dev/stderr", "to /proc/self/fd/0")
		if _, err := master.WriteString("typed\n"); err != nil {
			t.Fatal(err)
		}
		seen(t, out, "read typed", "31 97", "closed", "end")
		if _, err := master.WriteString("\n"); err != nil { // as in TestTerminal
			t.Fatal(err)
		}
		h.expect(cell.ReportExited)
		h.expect(cell.ReportEnded)
	}
	each(t, func(t *testing.T, w who) { reopen(t, start(t, w), "/") })
	eachRoom(t, func(t *testing.T, w who) {
		r := plain(workspace(t, w))
		r.Landlock.Rules = rules
		h, _ := inhabit(t, w, r)
		reopen(t, h, r.Workspace)
	})
}

// What is no terminal is not allowed by being called one.
func TestTerminalThatIsNone(t *testing.T) {
	s := shell("echo ran")
	s.Terminal = true
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, me)
	h.orderWith(s, dir, dup(t, os.Stderr), dup(t, os.Stderr))
	if r := h.expect(cell.ReportFailed); r.Step != "terminal" {
		t.Errorf("%+v", r)
	}
}

// seen reads lines until all of want came, in order.
func seen(t *testing.T, out *bufio.Scanner, want ...string) {
	t.Helper()
	for _, line := range want {
		for out.Scan() && strings.TrimSpace(out.Text()) != line {
		}
		if strings.TrimSpace(out.Text()) != line {
			t.Fatalf("%q never came", line)
		}
	}
}

func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}
