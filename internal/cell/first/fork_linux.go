package first

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Who is who a template is, and so what runs in its rooms.
type Who struct {
	UID, GID int
	LastCap  uintptr // the last capability that the kernel knows
}

// roomSpaces are the namespaces that every room has of its own. That of cgroups comes later, when the room is in its own.
const roomSpaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Fork makes the first process of a room, with namespaces of its own, off a crib if there is one. It speaks with the
// daemon on line and with its template on maker, whose other end Born and Release take. It ends with the calling thread.
func Fork(c *Crib, r *cell.Room, w Who, line, maker *os.File) (pid int, err error) {
	f := newProcess(r, w, line, maker)
	defer runtime.KeepAlive(f)
	if c != nil {
		return c.fork(f, roomSpaces)
	}
	return fork(f, roomSpaces)
}

// Born waits until the process is ready to be built around. The step is where it failed.
func Born(link *os.File) (step string, err error) {
	var buf [8]byte
	n, err := unix.Read(int(link.Fd()), buf[:])
	switch {
	case err != nil:
		return "namespace", err
	case n == 1 && buf[0] == sayBorn:
		return "", nil
	case n == 6 && buf[0] == cell.LineFailed && int(buf[1]) < len(cell.LineSteps):
		return cell.LineSteps[buf[1]], unix.Errno(binary.NativeEndian.Uint32(buf[2:]))
	}
	return "namespace", fmt.Errorf("the first process of the room ended: %w", unix.ECHILD)
}

// Release tells the process that its room is built, and which rules what runs there gets.
func Release(link *os.File, ruleset int) error {
	return unix.Sendmsg(int(link.Fd()), []byte{sayBuilt}, unix.UnixRights(ruleset), nil, unix.MSG_NOSIGNAL)
}

// fork makes the first process of a room.
func fork(f *process, spaces uintptr) (pid int, err error) {
	return forked(func() uintptr { return split(f, spaces|uintptr(unix.SIGCHLD)) })
}

// forked makes a process by do, which has a copy of this process's memory, and of its threads the calling one.
func forked(do func() uintptr) (pid int, err error) {
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = math.MaxUint64
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil { // they stay blocked in the child
		return 0, err
	}
	r := do()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err != nil {
		return 0, err
	}
	if e := errnoOf(r); e != 0 {
		return 0, e
	}
	return int(r), nil
}

// split is where the two part.
//
//go:nosplit
//go:norace
//go:noinline
func split(f *process, flags uintptr) uintptr {
	r := f.sys(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if r == 0 {
		alive(f)
	}
	return r
}

// newProcess writes down what the first process of a room must know.
func newProcess(r *cell.Room, w Who, line, maker *os.File) *process {
	f := &process{
		line: line.Fd(), maker: maker.Fd(), filter: r.Filter, lastCap: w.LastCap,
		capHeader: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3},
		polled:    [2]unix.PollFd{{Fd: lineFD, Events: unix.POLLIN}, {Fd: childFD, Events: unix.POLLIN}},
	}
	f.point()
	one := func(id int) string { return fmt.Sprintf("%d %d 1\n", id, id) }
	f.set("/proc/self/oom_score_adj", "500", cell.StepNone) // when memory runs out the program goes first
	// Should the host's core pattern ignore the core limit, the dump holds nothing of the program's memory.
	f.set("/proc/self/coredump_filter", "0", cell.StepNone)
	f.set("/proc/self/setgroups", "deny", cell.StepNamespace)
	f.set("/proc/self/uid_map", one(w.UID), cell.StepNamespace)
	f.set("/proc/self/gid_map", one(w.GID), cell.StepNamespace)
	f.writes = append(f.writes, setting{}) // its own /proc
	f.set("/proc/sys/user/max_user_namespaces", "0", cell.StepNamespace)
	if l := r.Watching; l != (cell.Watching{}) {
		f.set(cell.InstancesPath, strconv.FormatInt(l.Instances, 10), cell.StepWatch)
		f.set(cell.WatchesPath, strconv.FormatInt(l.Watches, 10), cell.StepWatch)
	}
	for _, l := range r.Rlimits {
		f.rlimits = append(f.rlimits, rlimit{uintptr(l.Resource), l.Value, l.Value})
	}
	return f
}

// point has the process's structures point to each other where they lie.
func (f *process) point() {
	f.iov.Base = &f.packet[0]
	f.message.Iov, f.message.Iovlen, f.message.Control = &f.iov, 1, &f.control[0]
	if len(f.filter) == 0 {
		return // a launcher's comes later
	}
	f.prog = unix.SockFprog{Len: uint16(len(f.filter) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&f.filter[0]))}
}

func (f *process) set(path, value string, step byte) {
	p, _ := syscall.BytePtrFromString(path) // fails for a text with a zero byte
	f.writes = append(f.writes, setting{p, []byte(value), step, path})
}
