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
