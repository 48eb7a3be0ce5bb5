package daemon

import (
	"os"
	"syscall"
)

// syncData waits until what was written is on the disk.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
