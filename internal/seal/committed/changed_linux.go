package committed

import (
	"io/fs"
	"syscall"
	"time"
)

// changed is the ctime of a file, which no program can set.
func changed(fi fs.FileInfo) time.Time {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Now()
}
