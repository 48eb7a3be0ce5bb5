//go:build faults

// Package fault names the moments at which a crash must be survivable.
package fault

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Enabled reports whether this build can be made to crash.
const Enabled = true

// PALYRA_FAULT is "<point>" or "<point>:<n>" for the n-th time it is passed.
var (
	want, count = parse(os.Getenv("PALYRA_FAULT"))
	mu          sync.Mutex
)

func parse(s string) (string, int) {
	name, n, ok := strings.Cut(s, ":")
	if !ok {
		return s, 1
	}
	i, err := strconv.Atoi(n)
	if err != nil || i < 1 {
		i = 1
	}
	return name, i
}

// Point kills the process when it is the one asked for.
func Point(name string) {
	if log := os.Getenv("PALYRA_FAULT_LOG"); log != "" {
		note(log, name)
	}
	if name != want || want == "" {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if count--; count > 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way; nothing may happen after this point
}

func note(file, name string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteString(name + "\n")
	_ = f.Close()
}
