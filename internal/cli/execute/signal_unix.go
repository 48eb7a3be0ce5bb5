//go:build unix

package execute

import (
	"os"
	"os/signal"
	"syscall"
)

// signalNames are the signals that are passed on.
var signalNames = map[os.Signal]string{
	syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT",
	syscall.SIGUSR1: "SIGUSR1", syscall.SIGUSR2: "SIGUSR2",
}

// resizeSignal says that the terminal has a new size.
const resizeSignal = syscall.SIGWINCH

// caught are the signals that exec takes.
func caught() []os.Signal {
	out := []os.Signal{resizeSignal}
	for s := range signalNames {
		out = append(out, s)
	}
	return out
}

// minePipes makes a write into a closed pipe an error rather than the end of
// this process: the call is then cancelled, not left behind.
func minePipes() (stop func()) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	return func() { signal.Stop(pipes) }
}

// openInherited opens a descriptor that another program left open, for this one alone. A read from it ends when it is
// closed.
func openInherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}
