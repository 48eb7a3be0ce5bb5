//go:build unix

package client

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"palyra"
)

// TestASocketThatMayNotBeReached: a process in another sandbox is told that it may not
// connect, not that nobody listens: starting a daemon would not help it.
func TestASocketThatMayNotBeReached(t *testing.T) {
	dial := func(errno syscall.Errno) *palyra.Error {
		return palyra.AsError(noDaemon("/run/agent.sock", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", errno)}))
	}
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.EACCES} {
		if e := dial(errno); e.Reason != ReasonOutOfReach || e.Remedy == "" || e.Remedy == "palyra up --detach" || !errors.Is(e, errno) {
			t.Errorf("%v: %s: %s (%s)", errno, e.Reason, e.Text, e.Remedy)
		}
	}
	for _, errno := range []syscall.Errno{syscall.ECONNREFUSED, syscall.ENOENT} {
		if e := dial(errno); e.Reason != ReasonNoDaemon || e.Remedy != "palyra up --detach" {
			t.Errorf("%v: %s (%s)", errno, e.Reason, e.Remedy)
		}
	}
}
