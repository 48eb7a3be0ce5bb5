//go:build unix

package workspace

import (
	"errors"
	"os"
	"syscall"
)

func ownerOf(fi os.FileInfo) (int64, error) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("workspace: the owner is unknown")
	}
	return int64(st.Uid), nil
}

func groupOf(dir string) (int64, error) {
	fi, err := os.Lstat(dir)
	if err != nil {
		return 0, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("workspace: the group is unknown")
	}
	return int64(st.Gid), nil
}

// identity is which file something is; the zero value: none.
type identity struct{ dev, ino uint64 }

// identityOf returns that of what a path leads to.
func identityOf(path string) identity {
	var st syscall.Stat_t
	if uninterrupted(func() error { return syscall.Stat(path, &st) }) != nil { // what cannot be looked at is the same as nothing
		return identity{}
	}
	return identity{uint64(st.Dev), st.Ino} //nolint:unconvert // not everywhere of that type
}

// glimpse is identityOf for what lies at the path itself, and whether that is a link.
func glimpse(path string) (id identity, link bool) {
	var st syscall.Stat_t
	if uninterrupted(func() error { return syscall.Lstat(path, &st) }) != nil {
		return identity{}, false
	}
	return identity{uint64(st.Dev), st.Ino}, st.Mode&syscall.S_IFMT == syscall.S_IFLNK //nolint:unconvert // not everywhere of that type
}

// uninterrupted repeats a look into which a signal broke.
func uninterrupted(look func() error) error {
	for {
		if err := look(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
