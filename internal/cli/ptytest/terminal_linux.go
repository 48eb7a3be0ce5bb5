package ptytest

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

// Terminal is a program with a person before it. It is one goroutine's.
type Terminal struct {
	PTY  *os.File // the person's side
	Cmd  *exec.Cmd
	Seen bytes.Buffer // what the program wrote so far, as far as it was waited for

	t        testing.TB
	patience time.Duration
	text     chan []byte
}

// Options say what a terminal is like.
type Options struct {
	Rows, Cols uint16
	Patience   time.Duration // how long anything is waited for
}

// Start starts a command at a terminal of its own.
func Start(t testing.TB, cmd *exec.Cmd, o Options) *Terminal {
	t.Helper()
	pty, tty := open(t, o)
	defer func() { _ = tty.Close() }()
	s := &Terminal{t: t, PTY: pty, Cmd: cmd, patience: o.Patience, text: make(chan []byte)}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		_ = pty.Close()
		t.Fatal(err)
	}
	go s.read()
	t.Cleanup(func() {
		_ = pty.Close()
		for range s.text { // until its reader is gone, too
		}
	})
	return s
}

// read passes on what the program writes, until it or the test is gone.
func (s *Terminal) read() {
	defer close(s.text)
	for {
		buf := make([]byte, 4096)
		n, err := s.PTY.Read(buf)
		if n > 0 {
			s.text <- buf[:n]
		}
		if err != nil {
			return
		}
	}
}

func open(t testing.TB, o Options) (pty, tty *os.File) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = control(pty, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	if err == nil {
		err = resize(pty, o.Rows, o.Cols)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = pty.Close()
		t.Fatal(err)
	}
	return pty, tty
}

func control(pty *os.File, f func(fd int) error) error {
	raw, err := pty.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func resize(pty *os.File, rows, cols uint16) error {
	return control(pty, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

// Resize makes the terminal larger or smaller.
func (s *Terminal) Resize(rows, cols uint16) {
	s.t.Helper()
	if err := resize(s.PTY, rows, cols); err != nil {
		s.t.Fatal(err)
	}
}

// Mode is how the terminal treats what is typed.
func (s *Terminal) Mode() (m unix.Termios) {
	s.t.Helper()
	err := control(s.PTY, func(fd int) error {
		got, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			m = *got
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// Expect waits until the program has written a text.
func (s *Terminal) Expect(text string) {
	s.t.Helper()
	s.Find(regexp.QuoteMeta(text))
}

// Find waits until the program has written what a pattern matches, and returns the groups.
func (s *Terminal) Find(pattern string) []string {
	s.t.Helper()
	want := regexp.MustCompile(pattern)
	late := time.After(s.patience)
	for {
		if m := want.FindStringSubmatch(s.Seen.String()); m != nil {
			return m
		}
		select {
		case b, ok := <-s.text:
			if !ok {
				s.t.Fatalf("the program ended without %q:\n%s", pattern, s.Seen.String())
			}
			s.Seen.Write(b)
		case <-late:
			s.t.Fatalf("no %q within %v:\n%s", pattern, s.patience, s.Seen.String())
		}
	}
}

// Secret waits until the program asks, by a pattern, and the terminal shows nothing that is typed.
func (s *Terminal) Secret(prompt string) {
	s.t.Helper()
	s.Find(prompt)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(s.patience); s.Mode().Lflag&unix.ECHO != 0; {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatal("the terminal shows what is typed")
		}
	}
}

// Type types a text as it is.
func (s *Terminal) Type(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.PTY, text); err != nil {
		s.t.Fatal(err)
	}
}

// End waits for the program's end and returns its exit code. Seen has all that it wrote.
func (s *Terminal) End() int {
	s.t.Helper()
	late := time.After(s.patience)
	for open := true; open; {
		select {
		case b, ok := <-s.text:
			s.Seen.Write(b)
			open = ok
		case <-late:
			s.t.Fatalf("the program does not end:\n%s", s.Seen.String())
		}
	}
	_ = s.Cmd.Wait() // the code says how it ended
	return s.Cmd.ProcessState.ExitCode()
}
