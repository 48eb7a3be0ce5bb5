//go:build unix

package quick

import (
	"fmt"
	"os"
	"syscall"
)

// Become makes this process another program of the command. It returns only if that cannot be.
func Become(path string, args []string) (code int, err error) {
	return 0, fmt.Errorf("cli: %s: %w", path, syscall.Exec(path, append([]string{os.Args[0]}, args...), os.Environ()))
}
