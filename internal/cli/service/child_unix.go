//go:build unix

package service

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// detached gives the program a session of its own, so that the end of this terminal does not end it.
func detached(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// attached keeps the terminal's own signals from the program: it gets them from us, once.
func attached(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// pleaseStop asks the program to end in good order.
func pleaseStop(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// alive reports whether a process still runs. A zombie does not.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) || !procfs()
	}
	_, rest, _ := bytes.Cut(raw, []byte(") ")) // after the name, which may hold any bytes
	return !bytes.HasPrefix(rest, []byte("Z"))
}

// procfs reports whether this system has /proc.
func procfs() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
