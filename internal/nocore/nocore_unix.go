//go:build unix

// Package nocore keeps a process from leaving its memory behind when it crashes.
package nocore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// most is the limit for dumps of memory. A byte and not none: of no byte Linux hands the memory to the system's collector of
// crashes all the same.
const most = 1

// Set has this process and all that it starts leave no memory behind. Nobody can take that back without privileges.
func Set() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return fmt.Errorf("nocore: %w", err)
	}
	now.Max = min(now.Max, most)
	now.Cur = now.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return fmt.Errorf("nocore: %w", err)
	}
	return nil
}
