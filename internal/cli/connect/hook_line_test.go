//go:build linux

package connect

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/internal/cli/screen"
)

// The line in the agent's settings ends with 2 where palyra cannot even start.
func TestHookLineBlocksWithoutPalyra(t *testing.T) {
	line := screen.ShellLine([]string{filepath.Join(t.TempDir(), "gone"), "hook", "claude-code"}) + orBlock
	err := exec.CommandContext(t.Context(), "/bin/sh", "-c", line).Run()
	if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.ExitCode() != 2 {
		t.Errorf("%v", err)
	}
}
