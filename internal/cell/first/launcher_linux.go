package first

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Launcher is the process that becomes the program of a cell, as its supervisor has it.
type Launcher struct {
	process *process
	memory  []byte // shared with it
	crib    *Crib
}

// mostImage is enough for the image of any Spec. The kernel gives the memory when it is written to.
const mostImage = 8 * cell.MaxSpec

// NewLauncher makes the memory of a launcher.
func NewLauncher() (*Launcher, error) {
	b, err := unix.Mmap(-1, 0, mostImage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("first: memory: %w", err)
	}
	return &Launcher{memory: b}, nil
}

// Fork makes the process, which ends with the calling thread, in the v2 cgroup into if there is one. Line is its end of
// a socket, daemon, which may be nil, one at which it may get its run; clears: it may clear its bounding set.
func (l *Launcher) Fork(line, daemon, into *os.File, lastCap uintptr, clears bool) (pid int, err error) {
	f := &process{
		line: line.Fd(), lastCap: lastCap, bounds: clears, parent: uintptr(unix.Getpid()),
		shared:    uintptr(unsafe.Pointer(&l.memory[0])), //nolint:gosec // of the kernel's own, it does not move
		capHeader: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3},
		how:       unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS},
	}
	f.point()
	f.set("/proc/self/oom_score_adj", "500", cell.StepNone) // when memory runs out the program goes first
	// Should the host's core pattern ignore the core limit, the dump holds nothing of the program's memory. The program
	// inherits the setting, and Landlock keeps it from changing it.
	f.set("/proc/self/coredump_filter", "0", cell.StepNone)
	if daemon != nil {
		f.daemon = daemon.Fd()
	}
	if into != nil {
		f.clone.flags, f.clone.cgroup = unix.CLONE_INTO_CGROUP, uint64(into.Fd())
	}
	f.clone.exitSignal = uint64(unix.SIGCHLD)
	l.process = f
	defer runtime.KeepAlive(into)
	if l.crib, err = NewCrib(); err != nil {
		return 0, err
	}
	if l.crib != nil {
		return l.crib.launcher(f)
	}
	return forked(func() uintptr { return part(f) })
}

// part is where the two part.
//
//go:nosplit
//go:norace
//go:noinline
func part(f *process) (r uintptr) {
	if f.clone.flags == 0 {
		r = f.sys(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	} else {
		r = f.sys(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&f.clone)), unsafe.Sizeof(f.clone), 0, 0, 0, 0)
	}
	if r == 0 {
		f.launch()
	}
	return r
}

// Load writes down what the launcher is to run.
func (l *Launcher) Load(image []byte) error {
	if len(image) > len(l.memory) {
		return unix.E2BIG
	}
	copy(l.memory, image)
	return nil
}

// Send has the launcher become the program: with its ruleset, the three streams and, for a sealed one, the program.
func (l *Launcher) Send(link *os.File, ruleset int, files []*os.File) error {
	fds := []int{ruleset}
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return tell(link, sayRun, fds...)
}

// Become has the launcher become the user of the image that was loaded, under its limits and its filter, and wait for its
// run at the socket to the daemon.
func (l *Launcher) Become(link *os.File) error { return tell(link, sayBecome) }

func tell(link *os.File, word byte, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	raw, err := link.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		sent = unix.Sendmsg(int(fd), []byte{word}, rights, nil, unix.MSG_NOSIGNAL)
	})
	if err != nil {
		return err
	}
	return sent
}

// Close gives the memory back, once the launcher has become the program or ended.
func (l *Launcher) Close() {
	if l.memory != nil {
		_ = unix.Munmap(l.memory)
		l.memory = nil
	}
}
