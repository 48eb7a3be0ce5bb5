//go:build unix

package home

import (
	"fmt"
	"os"
	"syscall"
)

// Foreign names the owner of a file that is not ours.
func Foreign(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return "has no owner that can be told"
	case int(st.Uid) != os.Getuid():
		return fmt.Sprintf("belongs to uid %d", st.Uid)
	}
	return ""
}
