//go:build linux

package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/rpc/rpctest"
)

// mode is how the terminal treats what is typed.
func (s *atTerminal) mode() unix.Termios {
	s.t.Helper()
	raw, err := s.pty.SyscallConn()
	fatal(s.t, err)
	var m *unix.Termios
	fatal(s.t, raw.Control(func(fd uintptr) { m, err = unix.IoctlGetTermios(int(fd), unix.TCGETS) }))
	fatal(s.t, err)
	return *m
}

func (s *atTerminal) resize(rows, cols uint16) {
	s.t.Helper()
	raw, err := s.pty.SyscallConn()
	fatal(s.t, err)
	fatal(s.t, raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}))
	fatal(s.t, err)
}

// eventually waits for something that another process does.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !f(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}

// The person at the terminal sees what the plan binds and answers in place; the
// command's output follows, made safe.
func TestExecAsksInPlace(t *testing.T) {
	rpctest.Question = pendingQuestion()
	s := openStage(t, func(x *played) palyra.Outcome {
		x.print("stdout", "caf\xc3")
		x.print("stdout", "\xa9 \x1b[2J\x1b]0;owned\x07\tok")
		return finished(7, "caf\xc3\xa9 \x1b[2J\x1b]0;owned\x07\tok", "")
	})
	s.asks()
	c := s.at("exec", "--", "./check.sh")
	c.expect("Type allow to allow once, deny to deny (Ctrl-C cancels the call): ")
	for _, want := range []string{
		"/home/ann/shop/check.sh", "sealed copy", "Command        ./check.sh --all \"a b\"", "CI=1", "Stdin          5 bytes, sha256:", "Makefile (does not exist)",
		"memory, processes: only looked at from time to time", "NOT enforced   disk", "network: none (strict)", "3 mechanisms, 2 held limits",
	} {
		if !strings.Contains(strings.ReplaceAll(c.seen.String(), "\r\n", "\n"), want) {
			t.Errorf("no %q on the screen:\n%s", want, c.seen.String())
		}
	}
	if len(s.started) != 0 {
		t.Fatal("it ran without an answer")
	}
	c.send("allow\n")
	if code := c.end(); code != 7 {
		t.Errorf("exit %d", code)
	}
	if got := c.seen.String(); !strings.Contains(got, "café \\x1b[2J\\x1b]0;owned\\x07") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("%q", got)
	}
	if x := s.running(); x.args.Live || x.args.Stdin != "" {
		t.Error("the person's terminal was taken for input")
	}
}

func TestExecDeniedInPlace(t *testing.T) {
	rpctest.Question = pendingQuestion()
	s := openStage(t, nil)
	s.asks()
	c := s.at("exec", "--", "x")
	c.expect("Type allow")
	c.send("deny\n")
	if code := c.end(); code != exit.Refused || !strings.Contains(c.seen.String(), "refused: denied by user:ann (approval_denied)") {
		t.Errorf("exit %d\n%s", code, c.seen.String())
	}
	c = s.at("exec", "--", "x")
	c.expect("Type allow")
	c.send("\x03")
	if code := c.end(); code != exit.Cancelled || len(s.started) != 0 {
		t.Errorf("exit %d\n%s", code, c.seen.String())
	}
}

// With -t the command has the terminal: keys as they are, sizes as they change.
// The question comes first, and afterwards all is as it was.
func TestExecOnATerminal(t *testing.T) {
	rpctest.Question = pendingQuestion()
	const screen = "\x1b[2Jhello\r\n"
	s := openStage(t, nil)
	resized := make(chan palyra.Feed, 1)
	s.plays(func(x *played) palyra.Outcome {
		x.print("stdout", screen)
		keys := ""
		for {
			f := x.fed(t)
			if f.Rows > 0 {
				resized <- f
			}
			if keys += string(f.Data); strings.HasSuffix(keys, "q") {
				break
			}
		}
		x.print("stdout", "got "+keys)
		return finished(0, screen+"got "+keys, "")
	})
	s.asks()
	c := s.at("exec", "-t", "--", "top")
	c.expect("Type allow")
	before := c.mode()
	if before.Lflag&unix.ICANON == 0 {
		t.Error("the terminal is raw while a person is asked")
	}
	c.send("allow\n")
	x := s.running()
	if tt := x.args.Terminal; tt == nil || tt.Rows != 50 || tt.Cols != 100 || !x.args.Live {
		t.Errorf("%+v", x.args)
	}
	c.expect(screen)
	eventually(t, "the terminal is never raw", func() bool { m := c.mode(); return m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0 })
	c.resize(33, 44)
	if f := <-resized; f.Rows != 33 || f.Cols != 44 {
		t.Errorf("%+v", f)
	}
	c.send("\x03\x1a\x04\rq")
	c.expect("got \x03\x1a\x04\rq")
	if code := c.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if c.mode() != before {
		t.Error("the terminal is not as it was")
	}
	if n := s.looked.Load(); n != 0 {
		t.Errorf("the call was looked at %d times; that it runs is told", n)
	}
}

// However a command with a terminal ends, the terminal is given back.
func TestExecGivesTheTerminalBack(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*atTerminal, *played)
		code int
		says string
	}{
		"failed":    {func(_ *atTerminal, x *played) { x.cancel() }, 126, "palyra: call C1 refused: no room (quota_exceeded)"},
		"signalled": {func(c *atTerminal, x *played) { _ = c.cmd.Process.Signal(syscall.SIGTERM) }, 126, "(quota_exceeded)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStage(t, func(x *played) palyra.Outcome {
				select {
				case <-x.ctx.Done():
				case f := <-x.feed:
					if f.Signal != "SIGTERM" {
						t.Errorf("%+v", f)
					}
				}
				return palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonQuotaExceeded, Reason: "no room"}
			})
			screen := s.at("exec", "-t", "--", "top")
			x := s.running()
			eventually(t, "the terminal is never raw", func() bool { m := screen.mode(); return m.Lflag&unix.ICANON == 0 })
			c.end(screen, x)
			code := screen.end()
			if m := screen.mode(); code != c.code || m.Lflag&unix.ICANON == 0 || m.Lflag&unix.ECHO == 0 || !strings.Contains(screen.seen.String(), c.says) {
				t.Errorf("exit %d\n%s", code, screen.seen.String())
			}
		})
	}
}

// Two Ctrl-C from elsewhere give up a command that has the terminal.
func TestExecOnATerminalCancelled(t *testing.T) {
	s := openStage(t, func(x *played) palyra.Outcome {
		<-x.ctx.Done()
		return cancelled
	})
	c := s.at("exec", "-t", "--", "top")
	x := s.running()
	eventually(t, "the terminal is never raw", func() bool { m := c.mode(); return m.Lflag&unix.ICANON == 0 })
	fatal(t, c.cmd.Process.Signal(os.Interrupt))
	if f := x.fed(t); f.Signal != "SIGINT" {
		t.Errorf("%+v", f)
	}
	fatal(t, c.cmd.Process.Signal(os.Interrupt))
	if code := c.end(); code != exit.Cancelled {
		t.Errorf("exit %d\n%s", code, c.seen.String())
	}
	if m := c.mode(); m.Lflag&unix.ICANON == 0 {
		t.Error("the terminal is still raw")
	}
}

// Without a terminal there is none to give.
func TestExecTerminalNeedsOne(t *testing.T) {
	for _, args := range [][]string{{"exec", "-t", "--", "x"}, {"exec", "-t", "--json", "--", "x"}, {"exec", "-t", "--no-stdin", "--", "x"}} {
		code, out, errs := play(t, args...)
		if code != exit.Usage || out != "" || !strings.Contains(errs, "-t") {
			t.Errorf("%v: exit %d %s", args, code, errs)
		}
	}
}

// On a terminal our own words start a line of their own.
func TestExecEndsTheLine(t *testing.T) {
	s := openStage(t, func(x *played) palyra.Outcome {
		x.print("stdout", "half a line")
		o := finished(137, "half a line", "")
		o.Signal, o.ReasonCode, o.Reason, o.Remedy = "SIGKILL", palyra.ReasonQuotaExceeded, "ended by its memory limit", "raise it"
		return o
	})
	c := s.at("exec", "--", "x")
	if code := c.end(); code != 137 || !strings.Contains(c.seen.String(), "half a line\r\npalyra: call C1 finished: ended by its memory limit (quota_exceeded)\r\n  remedy: raise it\r\n") {
		t.Errorf("exit %d %q", code, c.seen.String())
	}
}
