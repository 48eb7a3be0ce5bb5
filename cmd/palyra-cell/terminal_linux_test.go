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
		s := shell(`stty size < /dev/tty; test -t 0 && test -t 1 && test -t 2 && echo three
			trap 'stty size; echo sized' WINCH; trap 'echo interrupted; exit 8' INT; echo waiting; while :; do sleep 0.01; done`)
		s.Terminal = true
		h := start(t, w)
		out := bufio.NewScanner(master)
		h.orderWith(s, slave, dup(t, slave), dup(t, slave))
		h.expect(cell.ReportStarted)
		seen(t, out, "31 97", "three", "waiting")
		h.send(cell.Order{Kind: cell.OrderResize, Rows: 12, Cols: 34})
		seen(t, out, "12 34", "sized")
		if _, err := master.Write([]byte{3}); err != nil {
			t.Fatal(err)
		}
		seen(t, out, "^Cinterrupted")
		if r := h.expect(cell.ReportExited); r.Code != 8 {
			t.Errorf("%+v", r)
		}
		h.expect(cell.ReportEnded)
		if out.Scan() {
			t.Errorf("after the end: %q", out.Text())
		}
	})
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
