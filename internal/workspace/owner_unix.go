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
