package client

import (
	"context"
	"net"
	"syscall"

	"palyra"
)

// DaemonPID returns the process id that the daemon has in this namespace; 0: it cannot be seen from here. The
// daemon's own statement is its id in its own namespace, which may be another process's here.
func (c *Client) DaemonPID(ctx context.Context) (int, error) {
	conn, err := c.dial(ctx, "", "")
	if err != nil {
		return 0, failure(err)
	}
	defer func() { _ = conn.Close() }()
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "the daemon is not on this machine")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, failure(err)
	}
	var cred *syscall.Ucred
	var lost error
	if err := raw.Control(func(fd uintptr) {
		cred, lost = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, failure(err)
	}
	if lost != nil {
		return 0, failure(lost)
	}
	return int(cred.Pid), nil
}
