//go:build linux || darwin

package lend

import "syscall"

// isEmpty reports whether a socket has neither bytes nor an end to be read.
func isEmpty(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN
}
