package rpc

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID asks the kernel who connected; -1 when it will not say.
func peerUID(c net.Conn) int64 {
	uc, ok := bare(c).(*net.UnixConn)
	if !ok {
		return -1
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return -1
	}
	uid := int64(-1)
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int64(cred.Uid)
		}
	})
	if err != nil {
		return -1
	}
	return uid
}
