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
	process *os.File // pidfd
	release func()   // when it is gone
}

// NewFirst returns the process that a template made. Release is called when it is gone.
func NewFirst(pidfd *os.File, release func()) *First { return &First{pidfd, release} }

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
	f.Ended(-1)
	f.release()
	return f.process.Close()
}

// Harmless implements cells.Ender: it can do what its program can.
func (f *First) Harmless() []int { return nil }

// Ended implements cells.Ender: the process is not gone before all the others in the room are.
func (f *First) Ended(within time.Duration) bool {
	var fd int
	var err error
	if !f.held(func(pidfd int) { fd, err = unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 0) }) {
		return true // Wait has closed it
	}
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	for end := time.Now().Add(within); ; {
		left := -1
		if within >= 0 {
			left = max(0, int(time.Until(end).Milliseconds()))
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, left)
		if err == nil || !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
