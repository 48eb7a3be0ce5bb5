//go:build !linux

package daemon

import (
	"os"
	"time"
)

// processorTime is not known.
func processorTime() time.Duration { return 0 }

// syncData waits until what was written is on the disk.
func syncData(f *os.File) error { return f.Sync() }
