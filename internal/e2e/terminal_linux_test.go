package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// waitMost is how long a program is waited for.
const waitMost = 30 * time.Second

// terminal is a program with a person before it.
type terminal struct {
	t    testing.TB
	pty  *os.File
	cmd  *exec.Cmd
	text chan []byte
	seen bytes.Buffer
}

// atTerminal starts a command at a terminal of its own.
func atTerminal(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	pty, tty := newTerminal(t)
	defer func() { _ = tty.Close() }()
	s := &terminal{t: t, pty: pty, cmd: cmd, text: make(chan []byte)}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.text)
		for {
			buf := make([]byte, 4096)
			n, err := pty.Read(buf)
			if n > 0 {
				s.text <- buf[:n]
			}
			if err != nil {
				return // the program is gone, or the test is
			}
		}
	}()
	t.Cleanup(func() {
		_ = pty.Close()
		for range s.text {
		}
	})
	return s
}

func newTerminal(t testing.TB) (pty, tty *os.File) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pty.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n, failed := 0, error(nil)
	err = raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			n, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 60, Col: 200})
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pty, tty
}

// find waits until the program has written what a pattern matches, and returns the
// groups.
func (s *terminal) find(pattern string) []string {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	late := time.After(waitMost)
	for {
		if m := want.FindStringSubmatch(s.seen.String()); m != nil {
			return m
		}
		select {
		case b, ok := <-s.text:
			if !ok {
				s.t.Fatalf("the program ended without %q:\n%s", pattern, s.seen.String())
			}
			s.seen.Write(b)
		case <-late:
			s.t.Fatalf("no %q:\n%s", pattern, s.seen.String())
		}
	}
}

// secret waits until the program asks for something that is not shown.
func (s *terminal) secret(prompt string) {
	s.t.Helper()
	s.find(prompt)
	raw, err := s.pty.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(waitMost); ; {
		var mode *unix.Termios
		_ = raw.Control(func(fd uintptr) { mode, err = unix.IoctlGetTermios(int(fd), unix.TCGETS) })
		if err == nil && mode.Lflag&unix.ECHO == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("the terminal shows what is typed (%v)", err)
		}
	}
}

// enter types a line.
func (s *terminal) enter(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.pty, line+"\r"); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the program's end and returns its exit code and all that it wrote.
func (s *terminal) end() (int, string) {
	s.t.Helper()
	late := time.After(waitMost)
	for open := true; open; {
		select {
		case b, ok := <-s.text:
			s.seen.Write(b)
			open = ok
		case <-late:
			s.t.Fatalf("the program does not end:\n%s", s.seen.String())
		}
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode(), s.seen.String()
}
