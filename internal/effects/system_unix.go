//go:build unix

package effects

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// OfSystem reports whether a path is a program of the system that only root can change or replace: a link to it, as every
// virtual environment of Python has one, leads nobody's writes anywhere.
func OfSystem(way string) bool {
	real, err := filepath.EvalSymlinks(way)
	if err != nil || !strings.HasPrefix(real, "/usr/") {
		return false
	}
	fi, err := os.Lstat(real)
	if err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 || !rootsAlone(real) {
		return false
	}
	return above(real) && above(way)
}

// above reports whether the directories on the way are root's alone.
func above(way string) bool {
	for dir := filepath.Dir(way); ; dir = filepath.Dir(dir) {
		if !rootsAlone(dir) {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

func rootsAlone(path string) bool {
	fi, err := os.Stat(path)
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && fi.Mode()&0o022 == 0
}
