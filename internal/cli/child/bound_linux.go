package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Bound has a program end when we do, however that ends; call it after Group, on the goroutine that starts the program.
// The goroutine keeps its thread until release is called: it is the thread's end that the kernel goes by.
func Bound(cmd *exec.Cmd) (release func()) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
