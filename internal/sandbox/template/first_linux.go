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

// Pid implements cells.Body.
func (f *First) Pid() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.process.Fd()))
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
	_ = unix.PidfdSendSignal(int(f.process.Fd()), unix.SIGKILL, nil, 0) // an error means that it has ended already
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
	fd, err := unix.FcntlInt(f.process.Fd(), unix.F_DUPFD_CLOEXEC, 0) // Wait closes the other one
	if err != nil {
		return errors.Is(err, unix.EBADF)
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
