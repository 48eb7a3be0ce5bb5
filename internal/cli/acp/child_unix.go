//go:build unix

package acp

import (
	"os/exec"
	"syscall"
)

// apart puts the agent into a process group of its own: a signal for the editor's is not the agent's.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// finish ends the agent and what it started.
func finish(cmd *exec.Cmd, hard bool) {
	s := syscall.SIGTERM
	if hard {
		s = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, s)
}
