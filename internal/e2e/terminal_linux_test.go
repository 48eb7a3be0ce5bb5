package e2e

import (
	"os/exec"
	"testing"
	"time"

	"palyra/internal/cli/ptytest"
)

// waitMost is how long anything that must happen is waited for. It says that something
// hangs, never that it is slow: a busy machine is no fault.
const waitMost = 90 * time.Second

// terminal is a program with a person before it.
type terminal struct{ *ptytest.Terminal }

// atTerminal starts a command at a terminal of its own, wide enough for a code.
func atTerminal(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	return &terminal{ptytest.Start(t, cmd, ptytest.Options{Rows: 60, Cols: 200, Patience: waitMost})}
}

func (s *terminal) find(pattern string) []string { return s.Find(pattern) }
func (s *terminal) secret(prompt string)         { s.Secret(prompt) }

// enter types a line.
func (s *terminal) enter(line string) { s.Type(line + "\r") }

// end waits for the program's end and returns its exit code and all that it wrote.
func (s *terminal) end() (int, string) { return s.End(), s.Seen.String() }
