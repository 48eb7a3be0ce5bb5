package cells

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// StartProcess is os.StartProcess for a cell that lives in its own cgroups: the process is in them from its first
// moment, so that its limits always hold, and nobody but the daemon ever has a descriptor that could move a process
// into or out of them. (A user can take descriptors from any process of his uid, and from a room as well.) Moving
// the process later would also wait for a grace period of the kernel.
func (k *Keeper) StartProcess(name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	start := func() (*os.Process, error) { return os.StartProcess(name, argv, attr) }
	if k.Group == nil {
		return start()
	}
	if attr.Sys == nil {
		attr.Sys = &syscall.SysProcAttr{}
	}
	if attr.Sys.Pdeathsig != 0 {
		return nil, errors.New("cells: start: a process cannot follow a thread that ends first")
	}
	if k.Group.Version != 2 {
		return k.Group.start1(start)
	}
	dir, err := os.OpenFile(filepath.Join(k.Group.Tree, k.Group.name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("cells: cgroup: %w", err)
	}
	defer func() { _ = dir.Close() }()
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(dir.Fd())
	return start()
}

// start1 is for v1, where a process is born in the cgroups of the thread that makes it. That thread
// enters the cgroups and ends afterwards, so that it never has to leave them, and none of the
// daemon's own work is done in there.
func (g *Group) start1(start func() (*os.Process, error)) (p *os.Process, err error) {
	onThread(func() {
		if err = g.enter(); err == nil {
			p, err = start()
		}
	})
	return p, err
}

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
