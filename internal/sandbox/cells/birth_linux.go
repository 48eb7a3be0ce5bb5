package cells

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// enter puts the calling thread into the group. A thread that moves itself does not wait for a grace period.
func (g *Group) enter() error {
	for _, d := range g.Dirs() {
		if err := set(g.file(d, "tasks"), "0"); err != nil {
			return err
		}
	}
	return nil
}

// onThread runs do on a thread that is used for nothing else before it ends. It is never the first one of the
// process: that one does not end, and the memory of the whole process is charged to its cgroup.
func onThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked, so that the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			do()
			return
		}
		defer runtime.UnlockOSThread()
		onThread(do) // on another thread, because this is the first
	}()
	<-done
}

// seem gives the calling thread, which ends after that, the effective uid of somebody else and leaves it what root can do.
func seem(uid int64) error {
	const noSetuidFixup = 1 << 2
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noSetuidFixup, 0, 0, 0); err != nil {
		return err
	}
	const same = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); e != 0 { // package syscall would change all threads
		return e
	}
	return nil
}
