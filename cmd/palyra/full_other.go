//go:build !unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// become runs the program that has all commands, and ends as it does.
func become(path string, args []string) error {
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); err == nil || errors.As(err, &ended) {
		os.Exit(cmd.ProcessState.ExitCode())
	}
	return fmt.Errorf("cli: %s: %w", path, err)
}
