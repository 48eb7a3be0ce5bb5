package main

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// disarm takes every capability from all threads of this process, for good, and puts the filter
// over them. A thread that is made later inherits both.
func (b *builder) disarm() failure {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	// The ambient set goes with the others.
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&none)
	if e != 0 {
		return failed("capabilities", "", e)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed("dumpable", "", err)
	}
	code := b.room.Filter
	if len(code) == 0 {
		_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
		if e != 0 {
			return failed("no_new_privs", "", e)
		}
		return failure{}
	}
	// This thread has no_new_privs and passes it on to the others with the filter.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failed("no_new_privs", "", err)
	}
	return failed("seccomp", "", everyThread(code))
}

// everyThread puts a filter over all threads of the process, or none.
func everyThread(code []byte) error {
	prog := unix.SockFprog{Len: uint16(len(code) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&code[0]))}
	thread, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	switch {
	case e != 0:
		return e
	case thread != 0:
		return unix.EAGAIN // that thread has a filter of its own
	}
	return nil
}
