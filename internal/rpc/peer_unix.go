//go:build linux || darwin

package rpc

import "net"

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
		if u, err := uidBehind(int(fd)); err == nil {
			uid = int64(u)
		}
	})
	if err != nil {
		return -1
	}
	return uid
}
