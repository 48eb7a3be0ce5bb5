//go:build linux

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/term"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/ptytest"
)

// atTerminal is a program at a terminal.
type atTerminal struct {
	*ptytest.Terminal
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	seen *bytes.Buffer
}

// onTerminal starts a program at a terminal of its own.
func onTerminal(t *testing.T, dir string, env []string, name string, args ...string) *atTerminal {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	s := ptytest.Start(t, cmd, ptytest.Options{Rows: 50, Cols: 100, Patience: patience})
	return &atTerminal{Terminal: s, t: t, pty: s.PTY, cmd: cmd, seen: &s.Seen}
}

func (s *atTerminal) expect(text string)         { s.t.Helper(); s.Expect(text) }
func (s *atTerminal) expectSecret(prompt string) { s.t.Helper(); s.Secret(regexp.QuoteMeta(prompt)) }
func (s *atTerminal) end() int                   { s.t.Helper(); return s.End() }

// send types a text. What was seen so far is forgotten.
func (s *atTerminal) send(text string) {
	s.t.Helper()
	s.seen.Reset()
	s.Type(text)
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
	if code := s.end(); code != exit.Cancelled {
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
