//go:build !linux

package daemon

import "os"

// syncData waits until what was written is on the disk.
func syncData(f *os.File) error { return f.Sync() }
