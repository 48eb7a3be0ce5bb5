//go:build unix

package certfile

import (
	"io/fs"
	"syscall"
)

// ownerOf is whose a file is.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
