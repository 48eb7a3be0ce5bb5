package bwrap

import (
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/owner"
)

// open opens a path for mounting, with the owner's rights and without following a link.
func (r Room) open(path string) (*os.File, error) {
	var f *os.File
	err := r.asOwner(func() error {
		fd, err := openPlain(path, unix.O_PATH)
		if err == nil {
			f = os.NewFile(uintptr(fd), path)
		}
		return err
	})
	return f, err
}

// asOwner runs f with the file permissions that bubblewrap will have: those of the workspace's owner, in no other
// group, with no capability. Root would find more, and bubblewrap would then fail without a reason.
func (r Room) asOwner(f func() error) error {
	return owner.Do(owner.Identity{UID: r.UID, GID: r.GID}, f)
}
