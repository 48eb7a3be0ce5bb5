package beneath

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// longestWait is the pause after which LetGo gives up; all of them together are twice as long.
const longestWait = 3 * time.Second

// LetGo waits until nobody has a file open for writing. A process forked while a copy was written holds it open
// until it execs, and nobody can run the file meanwhile. The kernel gives a read lease only on a file without
// writers; a file system without leases is not waited for.
func LetGo(ctx context.Context, dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.EACCES: // its mode lets a group run it, and not its owner
		return nil
	case err != nil:
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for wait := 200 * time.Microsecond; wait < longestWait; wait *= 2 {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		if err != unix.EAGAIN {
			return nil // closing it gives the lease back
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return nil // whoever runs it is told by the kernel
}
