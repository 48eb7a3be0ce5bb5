//go:build !unix

package quick

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Become runs another program of the command and returns its exit code.
func Become(path string, args []string) (code int, err error) {
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if ended := (*exec.ExitError)(nil); err == nil || errors.As(err, &ended) {
		return cmd.ProcessState.ExitCode(), nil
	}
	return 0, fmt.Errorf("cli: %s: %w", path, err)
}
