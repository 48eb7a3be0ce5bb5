//go:build unix

package gitlink

import (
	"errors"
	"io/fs"
	"syscall"
)

func owner(fi fs.FileInfo) (int64, error) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("gitlink: the owner is unknown")
	}
	return int64(st.Uid), nil
}

func number(fi fs.FileInfo) (uint64, error) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("gitlink: the number of the directory is unknown")
	}
	return st.Ino, nil
}
