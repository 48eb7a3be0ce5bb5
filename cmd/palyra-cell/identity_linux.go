package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// capabilities returns the number of the kernel's last capability and whether this process may
// clear its bounding set. A process that may not belongs to an ordinary user, whom no_new_privs
// keeps from ever gaining what the set would allow.
func capabilities() (last uintptr, setpcap bool) {
	last = unix.CAP_LAST_CAP
	for have(last + 1) { // a kernel newer than this program
		last++
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return last, true // unknown: clearing is tried, and has to work
	}
	return last, data[unix.CAP_SETPCAP/32].Effective&(1<<(unix.CAP_SETPCAP%32)) != 0
}

func have(c uintptr) bool {
	_, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
	return err == nil
}

// bounding empties the ambient and the bounding set of this thread, as long as it may. It takes
// forty system calls, so the launcher does it while it waits: it needs nothing that the sets allow.
func bounding() unix.Errno {
	if _, _, e := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); e != 0 {
		return e
	}
	last, setpcap := capabilities()
	for c := uintptr(0); setpcap && c <= last; c++ {
		_, _, e := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0)
		if e == unix.EINVAL && c > 0 {
			break // a kernel older than this program has no more
		}
		if e != 0 {
			return e
		}
	}
	return 0
}

// identity makes the thread the workspace's owner, without any group but the
// given one. On this thread only: the others end with exec.
func (p *program) identity() unix.Errno {
	if p.stays {
		return 0
	}
	id := p.spec.Identity
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return e
	}
	gid, uid := uintptr(id.GID), uintptr(id.UID)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return e
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid)
	return e
}

// isAlready reports whether the process has that identity: an ordinary user may not call setgroups, and need not.
func isAlready(id *cell.Identity) bool {
	if id == nil {
		return true
	}
	r, e, s := unix.Getresuid()
	rg, eg, sg := unix.Getresgid()
	return id.UID != 0 && [3]int{r, e, s} == [3]int{id.UID, id.UID, id.UID} && [3]int{rg, eg, sg} == [3]int{id.GID, id.GID, id.GID}
}

// dropCapabilities empties the sets that a change of uid leaves (inheritable), and all of them where uid 0 stays.
func (p *program) dropCapabilities() unix.Errno {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, e := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
	return e
}
