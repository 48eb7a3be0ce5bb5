//go:build linux

package cli

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/term"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

func TestAskLine(t *testing.T) {
	s := stagetest.OnTerminal(t, "", nil, "ask-line")
	s.Expect("word? ")
	s.Send("  allow \n")
	s.Expect(`got "allow" <nil>`)
	s.End()
}

func TestAskLineEndsWithTheContext(t *testing.T) {
	s := stagetest.OnTerminal(t, "", nil, "ask-line")
	s.Expect("word? ")
	s.Send("\x03") // Ctrl-C, at which the terminal may drop what is being printed
	if code := s.End(); code != exit.Cancelled {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
}

// A question that ends while somebody has the terminal raw leaves the cursor at the
// start of a line.
func TestAskLineEndsItsLineInARawTerminal(t *testing.T) {
	s := stagetest.OnTerminal(t, "", nil, "ask-line")
	s.Expect("word? ")
	raw, err := s.Pty.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if _, err := term.MakeRaw(int(fd)); err != nil {
				t.Error(err)
			}
		})
	}
	if err == nil {
		err = s.Cmd.Process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Expect("word? \r\ngot")
	s.End()
}

func TestAskLineAtTheEndOfInput(t *testing.T) {
	s := stagetest.OnTerminal(t, "", nil, "ask-line")
	s.Expect("word? ")
	s.Send("\x04") // Ctrl-D
	s.Expect("no answer was typed")
	s.End()
}

func TestAskSecretIsNotShown(t *testing.T) {
	s := stagetest.OnTerminal(t, "", nil, "ask-secret")
	s.ExpectSecret("secret? ")
	s.Send("correct horse\n")
	s.Expect(`got "correct horse" <nil>`)
	if strings.Count(s.Seen.String(), "correct horse") != 1 {
		t.Errorf("the terminal showed it:\n%s", s.Seen.String())
	}
	s.End()
}

// A secret is typed like any line: characters can be taken back.
func TestAskSecretEditing(t *testing.T) {
	s := stagetest.OnTerminal(t, "", nil, "ask-secret")
	s.ExpectSecret("secret? ")
	s.Send("wrong\x15caf\u00e9\x7fex\x08\x1b\x01\r")
	s.Expect(`got "cafe" <nil>`)
	s.End()
}

// Giving up leaves the terminal as it was.
func TestAskSecretGivenUp(t *testing.T) {
	for _, key := range []string{"\x03", "\x04", "half\x03"} {
		s := stagetest.OnTerminal(t, "", nil, "ask-secret")
		s.ExpectSecret("secret? ")
		s.Send(key)
		s.Expect("no passphrase was typed")
		s.End()
	}
	s := stagetest.OnTerminal(t, "", nil, "ask-secret")
	s.ExpectSecret("secret? ")
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.Expect("no passphrase was typed")
	s.End()
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
