//go:build linux

package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// screen is a program at a terminal.
type screen struct {
	t     *testing.T
	pty   *os.File
	cmd   *exec.Cmd
	lines chan []byte
	seen  bytes.Buffer
}

// onTerminal starts a program at a terminal of its own.
func onTerminal(t *testing.T, dir string, env []string, name string, args ...string) *screen {
	t.Helper()
	pty, tty := openPTY(t)
	defer tty.Close()
	s := &screen{t: t, pty: pty, cmd: exec.CommandContext(t.Context(), name, args...), lines: make(chan []byte)}
	s.cmd.Dir, s.cmd.Env = dir, append(os.Environ(), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.lines)
		for {
			buf := make([]byte, 4096)
			n, err := pty.Read(buf)
			if n > 0 {
				s.lines <- buf[:n]
			}
			if err != nil {
				return // the other side is gone
			}
		}
	}()
	t.Cleanup(func() {
		_ = pty.Close()
		for range s.lines {
		}
		<-done
	})
	return s
}

func openPTY(t *testing.T) (pty, tty *os.File) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pty.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var ioctl error
	if err := raw.Control(func(fd uintptr) {
		if ioctl = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioctl != nil {
			return
		}
		var n int
		n, ioctl = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		name = fmt.Sprintf("/dev/pts/%d", n)
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 100})
	}); err != nil || ioctl != nil {
		t.Fatal(err, ioctl)
	}
	tty, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pty, tty
}

// expect waits until the program has written a text.
func (s *screen) expect(text string) {
	s.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(s.seen.String(), text) {
		select {
		case b, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the program ended without %q:\n%s", text, s.seen.String())
			}
			s.seen.Write(b)
		case <-deadline:
			s.t.Fatalf("no %q within %v:\n%s", text, patience, s.seen.String())
		}
	}
}

// expectSecret waits until the program asks and the terminal shows nothing that
// is typed.
func (s *screen) expectSecret(prompt string) {
	s.t.Helper()
	s.expect(prompt)
	raw, err := s.pty.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		var mode *unix.Termios
		_ = raw.Control(func(fd uintptr) { mode, err = unix.IoctlGetTermios(int(fd), unix.TCGETS) })
		if err == nil && mode.Lflag&unix.ECHO == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("the terminal still shows what is typed (%v)", err)
		}
	}
}

// send types a text. What was seen so far is forgotten.
func (s *screen) send(text string) {
	s.t.Helper()
	s.seen.Reset()
	if _, err := io.WriteString(s.pty, text); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the program's end and returns its exit code.
func (s *screen) end() int {
	s.t.Helper()
	deadline := time.After(patience)
	for open := true; open; {
		select {
		case b, ok := <-s.lines:
			s.seen.Write(b)
			open = ok
		case <-deadline:
			s.t.Fatalf("the program did not end:\n%s", s.seen.String())
		}
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

func TestAskLine(t *testing.T) {
	s := onTerminal(t, "", nil, "ask-line")
	s.expect("word? ")
	s.send("  allow \n")
	s.expect(`got "allow" <nil>`)
	s.end()
}

func TestAskLineEndsWithTheContext(t *testing.T) {
	s := onTerminal(t, "", nil, "ask-line")
	s.expect("word? ")
	s.send("\x03") // Ctrl-C, at which the terminal may drop what is being printed
	if code := s.end(); code != exitCancelled {
		t.Errorf("exit %d\n%s", code, s.seen.String())
	}
}

// A question that ends while somebody has the terminal raw leaves the cursor at the
// start of a line.
func TestAskLineEndsItsLineInARawTerminal(t *testing.T) {
	s := onTerminal(t, "", nil, "ask-line")
	s.expect("word? ")
	raw, err := s.pty.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if _, err := term.MakeRaw(int(fd)); err != nil {
				t.Error(err)
			}
		})
	}
	if err == nil {
		err = s.cmd.Process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.expect("word? \r\ngot")
	s.end()
}

func TestAskLineAtTheEndOfInput(t *testing.T) {
	s := onTerminal(t, "", nil, "ask-line")
	s.expect("word? ")
	s.send("\x04") // Ctrl-D
	s.expect("no answer was typed")
	s.end()
}

func TestAskSecretIsNotShown(t *testing.T) {
	s := onTerminal(t, "", nil, "ask-secret")
	s.expectSecret("secret? ")
	s.send("correct horse\n")
	s.expect(`got "correct horse" <nil>`)
	if strings.Count(s.seen.String(), "correct horse") != 1 {
		t.Errorf("the terminal showed it:\n%s", s.seen.String())
	}
	s.end()
}

// A secret is typed like any line: characters can be taken back.
func TestAskSecretEditing(t *testing.T) {
	s := onTerminal(t, "", nil, "ask-secret")
	s.expectSecret("secret? ")
	s.send("wrong\x15caf\u00e9\x7fex\x08\x1b\x01\r")
	s.expect(`got "cafe" <nil>`)
	s.end()
}

// Giving up leaves the terminal as it was.
func TestAskSecretGivenUp(t *testing.T) {
	for _, key := range []string{"\x03", "\x04", "half\x03"} {
		s := onTerminal(t, "", nil, "ask-secret")
		s.expectSecret("secret? ")
		s.send(key)
		s.expect("no passphrase was typed")
		s.end()
	}
	s := onTerminal(t, "", nil, "ask-secret")
	s.expectSecret("secret? ")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.expect("no passphrase was typed")
	s.end()
}

func TestReadSecretLimits(t *testing.T) {
	if _, err := readSecret(strings.NewReader(strings.Repeat("x", maxAnswer+1) + "\r")); err == nil {
		t.Error("a line without end was taken")
	}
	if line, err := readSecret(strings.NewReader("\x7f\x7f\x15ok\r")); err != nil || string(line) != "ok" {
		t.Errorf("%q %v", line, err)
	}
	if _, err := readSecret(strings.NewReader("cut off")); err == nil {
		t.Error("the end of input counts as Enter")
	}
}

// Without a terminal nobody is asked, whatever stdin holds.
func TestAskingNeedsATerminal(t *testing.T) {
	for _, name := range []string{"ask-line", "ask-secret"} {
		cmd := exec.CommandContext(t.Context(), name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdin = strings.NewReader("allow\n")
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), `got "" there is no terminal to ask on`) {
			t.Errorf("%s: %s %v", name, out, err)
		}
	}
}
