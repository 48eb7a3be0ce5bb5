//go:build !unix

package durable

import (
	"errors"
	"fmt"
	"os"
)

// Directories cannot be flushed here; the rename itself is what the system offers.
func syncDir(*os.File) error { return nil }

// Held is a lock that this process holds.
type Held struct{}

// Lock is not available here, and says so: running unlocked is not an option.
func Lock(path string) (*Held, error) {
	return nil, fmt.Errorf("durable: lock %s: %w", path, errors.ErrUnsupported)
}

// Holder is not available here.
func Holder(path string) (*os.Process, error) {
	return nil, fmt.Errorf("durable: holder of %s: %w", path, errors.ErrUnsupported)
}

// Release gives the lock up.
func (*Held) Release() error { return nil }

// PrivateDir is not available here.
func PrivateDir(path string) error { return CheckPrivate(path) }

// CheckPrivate is not available here: owners and modes mean something else.
func CheckPrivate(path string) error {
	return fmt.Errorf("durable: check %s: %w", path, errors.ErrUnsupported)
}
