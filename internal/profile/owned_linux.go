package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openOwned opens a regular file of uid's. It may be reached by links: people
// keep their configuration elsewhere. It is looked at before it is opened to be
// read, so that a link to a device or to somebody else's file does nothing.
func openOwned(path string, uid int64) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	at := os.NewFile(uintptr(fd), path)
	defer at.Close()
	info, err := at.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !owned(info, uid) {
		return nil, errors.New("not a regular file of the owner's")
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}
