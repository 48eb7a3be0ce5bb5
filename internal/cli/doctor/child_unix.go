//go:build !windows

package doctor

import (
	"os/exec"
	"syscall"
)

// processGroup has a program and what it starts end processGroup; end ends them, once it was started.
func processGroup(cmd *exec.Cmd) (end func() error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
