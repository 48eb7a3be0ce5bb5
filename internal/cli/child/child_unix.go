//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// Group has a program lead a process group of its own: what the terminal signals is not meant for it. End, once the
// program was started, asks it and what it started to end; hard, it ends them.
func Group(cmd *exec.Cmd) (end func(hard bool) error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func(hard bool) error {
		s := syscall.SIGTERM
		if hard {
			s = syscall.SIGKILL
		}
		return syscall.Kill(-cmd.Process.Pid, s)
	}
}

// Alone has a program run without the terminal: it cannot ask there, nor draw on it.
func Alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
