package client

import (
	"context"
	"net"
	"syscall"

	"palyra"
)

// DaemonPID returns the number that the process at the daemon's socket has here. What
// a daemon says of itself is its number in its own namespace, which may be another
// process's in this one. 0: it is not to be seen from here.
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
