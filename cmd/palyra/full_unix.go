//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// become makes this process the program that has all commands.
func become(path string, args []string) error {
	return fmt.Errorf("cli: %s: %w", path, syscall.Exec(path, append([]string{os.Args[0]}, args...), os.Environ()))
}
