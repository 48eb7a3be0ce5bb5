package main

import (
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

// isAlready reports whether the process has that identity: an ordinary user may not call setgroups, and need not.
func isAlready(id *cell.Identity) bool {
	if id == nil {
		return true
	}
	r, e, s := unix.Getresuid()
	rg, eg, sg := unix.Getresgid()
	return id.UID != 0 && [3]int{r, e, s} == [3]int{id.UID, id.UID, id.UID} && [3]int{rg, eg, sg} == [3]int{id.GID, id.GID, id.GID}
}
