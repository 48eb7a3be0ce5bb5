package template

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// First is the first process of a room, with which the kernel ends everything in it. The daemon is not its parent: the
// template reaps it.
type First struct {
	process *os.File      // pidfd
	release func()        // when it is gone
	gone    chan struct{} // closed when it is
}

// NewFirst returns the process that a template made. Release is called when it is gone.
func NewFirst(pidfd *os.File, release func()) *First {
	f := &First{process: pidfd, release: release, gone: make(chan struct{})}
	own, err := -1, os.ErrClosed
	f.held(func(fd int) { own, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		close(f.gone) // it was closed before
		return f
	}
	go f.await(own)
	return f
}

// await waits for the end of the process. The runtime's poller does, so that no thread does, and no processor of the
// scheduler's with it until somebody notices.
func (f *First) await(pidfd int) {
	defer close(f.gone)
	_ = unix.SetNonblock(pidfd, true)
	own := os.NewFile(uintptr(pidfd), "first")
	defer func() { _ = own.Close() }()
	c, err := own.SyscallConn()
	if err == nil && c.Read(func(fd uintptr) bool { return readable(int(fd), 0) }) == nil {
		return
	}
	readable(pidfd, -1) // a kernel whose poller cannot tell
}

// readable waits so many milliseconds until a descriptor can be read, as that of a process that is gone.
func readable(fd, within int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, within)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// held calls do with the process, which is not closed meanwhile: the number of a descriptor that is closed may be
// another room's a moment later. False: it is gone.
func (f *First) held(do func(pidfd int)) bool {
	c, err := f.process.SyscallConn()
	return err == nil && c.Control(func(fd uintptr) { do(int(fd)) }) == nil
}

// Pid implements cells.Body.
func (f *First) Pid() int {
	var b []byte
	err := os.ErrClosed
	f.held(func(fd int) { b, err = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd)) })
	_, line, ok := strings.Cut("\n"+string(b), "\nPid:")
	line, _, _ = strings.Cut(line, "\n")
	pid, e := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || e != nil || !ok {
		return 0
	}
	return max(pid, 0) // below zero: it is reaped
}

// Kill implements cells.Body.
func (f *First) Kill() {
	f.held(func(fd int) { _ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }) // an error means that it has ended already
}

// Wait implements cells.Body.
func (f *First) Wait() error {
	f.Kill() // it has closed its socket, so it is about to end
	<-f.gone
	f.release()
	return f.process.Close()
}

// Harmless implements cells.Ender: it can do what its program can.
func (f *First) Harmless() []int { return nil }

// soon is how long the end of a process is waited for by the thread that asks, which is woken by nobody but the kernel.
// It takes a tenth of that.
const soon = 2 * time.Millisecond

// Ended implements cells.Ender: the process is not gone before all the others in the room are.
func (f *First) Ended(within time.Duration) bool {
	gone := true // or Wait has closed it
	f.held(func(fd int) { gone = readable(fd, int(min(max(within, 0), soon)/time.Millisecond)) })
	if gone || within <= 0 {
		return gone
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-f.gone:
		return true
	case <-late.C:
		return false
	}
}
