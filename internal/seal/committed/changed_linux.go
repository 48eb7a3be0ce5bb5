package committed

import (
	"io/fs"
	"syscall"
	"time"
)

// changed is when a file was last changed in any way: no program can set that time.
func changed(fi fs.FileInfo) time.Time {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Now()
}
