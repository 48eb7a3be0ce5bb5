package main

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// fork is the plain call. The child runs on this thread alone, without the Go
// runtime's others: it may use raw system calls and nothing that allocates.
//
//go:nosplit
func fork(flags uintptr) uintptr {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return ^uintptr(0)
	}
	return pid
}

//go:nosplit
func leave(code uintptr) {
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}

// pause never returns. A sandbox that fails leaves it behind; the suite finds it by its name.
//
//go:nosplit
func pause() {
	for {
		unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

//go:nosplit
func closeAll() {
	for fd := uintptr(0); fd < 256; fd++ {
		unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
}

// spray leaves so many deaf children below a deaf parent.
func spray(a []string) int {
	n := number(a[0])
	deaf()
	ready()
	for range n {
		if fork(0) == 0 {
			pause()
		}
	}
	pause()
	return 0
}

// orphans leaves so many children and ends.
func orphans(a []string) int {
	n := number(a[0])
	deaf()
	ready()
	for range n {
		if fork(0) == 0 {
			pause()
		}
	}
	return 0
}

// daemon goes so many generations down, each in a session of its own, and the
// first ends at once; "close" lets go of every descriptor, "keep" holds them.
func daemon(a []string) int {
	n, closing := number(a[0]), a[1] == "close"
	deaf()
	ready()
	for i := range n {
		pid := fork(0)
		switch {
		case pid == ^uintptr(0):
			leave(failed)
		case pid != 0 && i == 0:
			leave(0)
		case pid != 0:
			leave(0)
		}
		unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
	if closing {
		closeAll()
	}
	pause()
	return 0
}

// hop flees: every process forks and ends, so that whoever looks for it finds a pid that is gone. a[0] chains do so
// a[1] times each, in sessions of their own; "stay" as a[2] keeps the first process alive, which is deaf.
func hop(a []string) int {
	chains, hops, stay := number(a[0]), number(a[1]), a[2] == "stay"
	deaf()
	ready()
	for range chains {
		if fork(0) == 0 {
			unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			flee(hops)
		}
	}
	if stay {
		pause()
	}
	return 0
}

//go:nosplit
func flee(hops int) {
	for range hops {
		for {
			pid := fork(0)
			if pid == 0 {
				break
			}
			if pid != ^uintptr(0) {
				leave(0)
			}
		}
	}
	pause()
}

// stopped leaves a child that has stopped itself.
func stopped([]string) int {
	ready()
	if fork(0) == 0 {
		pid, _, _ := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		for {
			unix.RawSyscall(unix.SYS_KILL, pid, uintptr(unix.SIGSTOP), 0)
		}
	}
	return 0
}

// sibling makes its child a child of its own parent.
func sibling([]string) int {
	deaf()
	ready()
	if fork(unix.CLONE_PARENT) == 0 {
		unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		closeAll()
		pause()
	}
	return 0
}

// vfork waits, deaf to all but SIGKILL, for a child that never ends.
func vfork([]string) int {
	deaf()
	ready()
	if fork(unix.CLONE_VFORK) == 0 {
		pause()
	}
	return 0
}

// forkBomb doubles so many times; then all of it pauses.
func forkBomb(a []string) int {
	n := number(a[0])
	deaf()
	_ = os.Stdout.Close()
	for range n {
		fork(0)
	}
	pause()
	return 0
}

// zombies leaves so many dead children that nobody waits for.
func zombies(a []string) int {
	n := number(a[0])
	deaf()
	ready()
	for range n {
		if fork(0) == 0 {
			leave(0)
		}
	}
	pause()
	return 0
}

// burnUnseen uses the processor for so many ms by children that end before anyone
// looks, and whose time the kernel adds to nobody's because nobody waits.
func burnUnseen(a []string) int {
	end := time.Now().Add(time.Duration(number(a[0])) * time.Millisecond)
	deaf()
	signal.Ignore(unix.SIGCHLD)
	for time.Now().Before(end) {
		for range 2 {
			if fork(0) == 0 {
				spin()
				leave(0)
			}
		}
		for { // returns when there is none
			if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
				break
			}
		}
	}
	return 0
}

// spin works for some 40 ms.
//
//go:nosplit
func spin() {
	x := uint64(1)
	for range 40_000_000 {
		x = x*6364136223846793005 + 1
	}
	if x == 0 {
		leave(1)
	}
}
