package beneath

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Give gives a new directory, which only we can reach, its owner and mode, whatever the umask.
// Only root gives it to another user.
func Give(dir int, name string, uid, gid int, mode uint32) error {
	if os.Geteuid() != 0 {
		return unix.Fchmodat(dir, name, mode&0o700, 0)
	}
	return errors.Join(unix.Fchownat(dir, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW), unix.Fchmodat(dir, name, mode, 0))
}
