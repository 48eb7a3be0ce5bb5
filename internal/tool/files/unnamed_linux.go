package files

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// openUnnamed makes a file without a name in a directory, of which a crash leaves nothing. It fails
// where the file system does not support that.
func openUnnamed(dir int) (int, error) {
	return openat(dir, ".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
}

// giveName gives such a file a name that must be free.
func giveName(fd, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/thread-self/fd/%d", fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}
