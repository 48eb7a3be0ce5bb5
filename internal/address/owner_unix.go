//go:build unix

package address

import (
	"fmt"
	"os"
	"syscall"
)

// openPlain opens a file to read: no link is followed, no pipe waited for.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}

// own reports whether only we, or root, could have written the file.
func own(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Geteuid() || st.Uid == 0) && info.Mode().Perm()&0o022 == 0
}

func mark(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "run ?"
	}
	return fmt.Sprintf("run %d:%d", st.Dev, st.Ino)
}
