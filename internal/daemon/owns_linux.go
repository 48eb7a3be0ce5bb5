package daemon

import (
	"io/fs"
	"os"
	"syscall"
)

// owns reports whether a file is the daemon's user's.
func owns(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
