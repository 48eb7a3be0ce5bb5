package files

import (
	"errors"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

func exchange(dir int, temp, name string) error {
	return unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE)
}

func move(dir int, from, to string) error {
	return unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE)
}

// aclName is the attribute with a file's access list.
const aclName = beneath.AccessList

// keepACL gives fd the access list of the file it replaces, or removes the one that the directory
// hands down to new files. Without this a replacement could let in people whom the list kept out.
func keepACL(dir int, name string, fd int) error {
	old, err := openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(old) }()
	const most = 64 << 10 // limit of the kernel
	b := make([]byte, most)
	n, err := unix.Fgetxattr(old, aclName, b)
	if err == nil {
		return unix.Fsetxattr(fd, aclName, b[:n], 0)
	}
	if noACL(err) {
		err = unix.Fremovexattr(fd, aclName)
	}
	if noACL(err) {
		return nil
	}
	return err
}

func noACL(err error) bool { return errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) }
