//go:build unix

package config

import (
	"fmt"
	"os"
	"syscall"
)

// openPlain opens a file to read without waiting, should it be a pipe.
func openPlain(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// writableByOthers says who else could have written the file: only we and root may.
func writableByOthers(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return "its owner cannot be told"
	case int(st.Uid) != os.Getuid() && st.Uid != 0:
		return fmt.Sprintf("belongs to uid %d: somebody else could change it", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("has mode %04o: others could change it", info.Mode().Perm())
	}
	return ""
}
