package daemon

import (
	"os"
	"syscall"
	"time"
)

// syncData waits until what was written is on the disk.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// processorTime is what the process has used of the processor.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
