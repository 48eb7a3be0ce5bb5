package durable

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// holds reports whether the system's list of locks has one of this process on
// this file. The device is left out: some file systems show another one there.
func holds(pid int, fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// 1: FLOCK  ADVISORY  WRITE 1234 fe:00:56789 0 EOF
		w := strings.Fields(lines.Text())
		if len(w) < 6 || w[1] != "FLOCK" || w[3] != "WRITE" || w[4] != strconv.Itoa(pid) {
			continue
		}
		if i := strings.LastIndexByte(w[5], ':'); w[5][i+1:] == strconv.FormatUint(st.Ino, 10) {
			return true
		}
	}
	return false
}
