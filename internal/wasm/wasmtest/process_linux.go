package wasmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Workers are the processes of palyra-wasm below this one.
func Workers(t testing.TB) (all []int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if string(b) == "palyra-wasm\x00" && below(pid, os.Getpid()) {
			all = append(all, pid)
		}
	}
	return all
}

func below(pid, top int) bool {
	for pid > 1 && pid != top {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		pid, _ = strconv.Atoi(strings.Fields(rest)[1])
	}
	return pid == top
}

// Resident is how much memory a process has.
func Resident(t testing.TB, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return n * int64(os.Getpagesize())
}
