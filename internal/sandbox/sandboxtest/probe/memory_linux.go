package main

import (
	"strconv"

	"golang.org/x/sys/unix"
)

const mebi = 1 << 20

// fill makes n MiB of memory that is really there. A refusal of the kernel ends
// the filling: it is what a limit may do.
//
//go:nosplit
func fill(n int, kind uintptr) (done int, e unix.Errno) {
	const populateWrite = 23
	for i := range n / 4 {
		at, _, e := unix.RawSyscall6(unix.SYS_MMAP, 0, 4*mebi, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|kind, ^uintptr(0), 0)
		if e == 0 {
			_, _, e = unix.RawSyscall(unix.SYS_MADVISE, at, 4*mebi, populateWrite)
		}
		if e != 0 {
			return 4 * i, e
		}
	}
	return n, 0
}

// memory takes so many MiB, holds them until killed and so is never merely
// quick; it ends by itself only when it was refused.
func memory(a []string) int {
	deaf()
	if n, e := fill(number(a[0]), unix.MAP_PRIVATE); e != 0 {
		return fail("refused after %d MiB: %v", n, e)
	}
	ready()
	pause()
	return 0
}

func memoryShared(a []string) int {
	deaf()
	if n, e := fill(number(a[0]), unix.MAP_SHARED); e != 0 {
		return fail("refused after %d MiB: %v", n, e)
	}
	ready()
	pause()
	return 0
}

// memoryTree has a[0] children take a[1] MiB each.
func memoryTree(a []string) int {
	n, size := number(a[0]), number(a[1])
	deaf()
	for range n {
		if fork(0) == 0 {
			fill(size, unix.MAP_PRIVATE)
			pause()
		}
	}
	pause()
	return 0
}

// memoryFile puts a[0] MiB into each of a[1] files of memory that no process maps.
func memoryFile(a []string) int {
	deaf()
	for i := range number(a[1]) {
		fd, err := unix.MemfdCreate("m"+strconv.Itoa(i), unix.MFD_CLOEXEC)
		if err != nil {
			return fail("refused: %v", err)
		}
		if err := writeMebi(fd, number(a[0])); err != nil {
			return fail("refused: %v", err)
		}
	}
	ready()
	pause()
	return 0
}

// memoryTables takes a[0] MiB of page tables: one page read in every 2 MiB maps
// the page of zeros, which belongs to nobody.
func memoryTables(a []string) int {
	const populateRead, span = 22, 2 * mebi
	deaf()
	n := uintptr(number(a[0])) * mebi / 4096
	at, _, e := unix.RawSyscall6(unix.SYS_MMAP, 0, n*span, unix.PROT_READ, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unix.MAP_NORESERVE,
		^uintptr(0), 0)
	if e != 0 {
		return fail("refused: %v", e)
	}
	if _, _, e = unix.RawSyscall(unix.SYS_MADVISE, at, n*span, unix.MADV_NOHUGEPAGE); e != 0 {
		return fail("refused: %v", e)
	}
	for i := range n {
		if _, _, e = unix.RawSyscall(unix.SYS_MADVISE, at+i*span, 4096, populateRead); e != 0 {
			return fail("refused: %v", e)
		}
	}
	ready()
	pause()
	return 0
}

// memorySockets leaves a[0] MiB unread in pairs of sockets.
func memorySockets(a []string) int {
	deaf()
	b := make([]byte, 64<<10)
	for held := 0; held < number(a[0])*mebi; {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fail("refused: %v", err)
		}
		for _, fd := range fds {
			for {
				n, err := unix.Write(fd, b)
				if err != nil {
					break
				}
				held += n
			}
		}
	}
	ready()
	pause()
	return 0
}
