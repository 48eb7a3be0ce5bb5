package main

import (
	"strconv"

	"golang.org/x/sys/unix"
)

func archCalls() map[string][]uintptr {
	return map[string][]uintptr{
		"iopl":            {unix.SYS_IOPL, 99},
		"ioperm":          {unix.SYS_IOPERM, ^uintptr(0), 1, 0},
		"kexec_file_load": {unix.SYS_KEXEC_FILE_LOAD, ^uintptr(0), ^uintptr(0), 0, 0, 0xffff0000},
		"lookup_dcookie":  {unix.SYS_LOOKUP_DCOOKIE, 0, 0, 0},
	}
}

// getpid32 asks for the pid through the 32-bit door.
func getpid32() uintptr

func foreignABI(which string) (string, error) {
	if which == "x32" {
		const x32 = 0x40000000
		n, _, e := unix.RawSyscall(x32|unix.SYS_GETPID, 0, 0, 0)
		if e != 0 {
			return "", e
		}
		return strconv.Itoa(int(n)), nil
	}
	n := int32(getpid32())
	if n < 0 {
		return "", unix.Errno(-n)
	}
	return strconv.Itoa(int(n)), nil
}
