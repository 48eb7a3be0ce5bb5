//go:build unix

package profile

import (
	"fmt"
	"os"
	"syscall"
)

// openPlain opens a file to read, without waiting should it be a pipe, and no link.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}

// fileIdentity is what else tells one file from another.
func fileIdentity(info os.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Dev, st.Ino, st.Uid)
	}
	return ""
}

// unsafeToTrust says who else could have written path.
func unsafeToTrust(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return "cannot be looked at"
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return "has no owner that can be told"
	case info.Mode()&os.ModeSymlink != 0:
		return "is a symbolic link"
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return fmt.Sprintf("belongs to uid %d", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("has mode %04o", info.Mode().Perm())
	}
	return ""
}

// owned reports whether info is a file of uid's.
func owned(info os.FileInfo, uid int64) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == uid
}
