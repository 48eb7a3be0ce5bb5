package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// maker is the one thread of a template that makes rooms: it makes their first processes, and goes into their
// namespaces to furnish them. It is locked for as long as the template lives: the processes die with it.
type maker struct {
	work     chan func()
	mnt, net int // the template's own namespaces
	uid, gid int
	lastCap  uintptr
}

// roomSpaces are the namespaces that every room has of its own. That of cgroups comes later, when the room is in its own.
const roomSpaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// newMaker starts the thread. Nothing that is mounted outside from then on appears in a room.
func newMaker() (*maker, error) {
	m := &maker{work: make(chan func()), uid: unix.Getuid(), gid: unix.Getgid()}
	m.lastCap, _ = capabilities()
	go func() {
		runtime.LockOSThread() // never unlocked
		for f := range m.work {
			f()
		}
	}()
	var err error
	m.do(func() { err = m.begin() })
	return m, err
}

// do runs f on the maker's thread and waits for it.
func (m *maker) do(f func()) {
	done := make(chan struct{})
	m.work <- func() { f(); close(done) }
	<-done
}

func (m *maker) begin() (err error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil { // a thread that shares its directory cannot go elsewhere
		return fmt.Errorf("namespace: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if err := uncoverProc(); err != nil {
		return fmt.Errorf("namespace: /proc: %w", err)
	}
	if err := spreadCovers(); err != nil {
		return fmt.Errorf("namespace: %s: %w", coversPath, err)
	}
	if m.mnt, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if m.net, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	return nil
}

// uncoverProc takes away what bubblewrap lays over files of /proc: the kernel lets nobody mount another /proc where one
// hides something. Nothing ever runs in the template, and rooms get covers of their own.
func uncoverProc() error {
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus"} {
		for {
			err := unix.Unmount("/proc/"+name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
				break // it is no mount
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// birth is a first process as the template knows it.
type birth struct {
	pid      int
	link     *os.File // to it, until it is built
	mnt, net int      // its namespaces: kept open, so that they are taken down here and not where somebody waits
}

// bear makes the first process of a room. It runs on the maker's thread.
func (m *maker) bear(r *cell.Room, line *os.File) (b birth, fault failure) {
	b = birth{mnt: -1, net: -1}
	ours, theirs, err := cell.Pair()
	if err != nil {
		return b, failed("maker", "", err)
	}
	defer func() { _ = theirs.Close() }()
	b.link = ours
	f := m.first(r, line, theirs)
	if b.pid, err = fork(f, roomSpaces); err != nil {
		return b, failed("namespace", "", err)
	}
	runtime.KeepAlive(f)
	if fault := b.born(); fault.step != "" {
		return b, fault
	}
	ns := "/proc/" + strconv.Itoa(b.pid) + "/ns/"
	if b.mnt, err = unix.Open(ns+"mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return b, failed("namespace", "", err)
	}
	if b.net, err = unix.Open(ns+"net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return b, failed("namespace", "", err)
	}
	return b, failure{}
}

// born waits until the process has settled.
func (b *birth) born() failure {
	var buf [8]byte
	n, err := unix.Read(int(b.link.Fd()), buf[:])
	switch {
	case err != nil:
		return failed("namespace", "", err)
	case n == 1 && buf[0] == sayBorn:
		return failure{}
	case n == 6 && buf[0] == cell.LineFailed && int(buf[1]) < len(cell.LineSteps):
		errno := unix.Errno(binary.NativeEndian.Uint32(buf[2:]))
		return failure{step: cell.LineSteps[buf[1]], errno: errno, text: errno.Error()}
	}
	return failure{step: "namespace", errno: unix.ECHILD, text: "the first process of the room ended"}
}

// visit runs do in the room's namespaces of files and network. It runs on the maker's thread.
func (m *maker) visit(b birth, do func() failure) (f failure) {
	if err := unix.Setns(b.net, unix.CLONE_NEWNET); err != nil {
		return failed("namespace", "", err)
	}
	if err := unix.Setns(b.mnt, unix.CLONE_NEWNS); err != nil {
		return failed("namespace", "", errors.Join(err, unix.Setns(m.net, unix.CLONE_NEWNET)))
	}
	defer func() { // a maker that cannot come back makes no more rooms
		if err := errors.Join(unix.Setns(m.mnt, unix.CLONE_NEWNS), unix.Setns(m.net, unix.CLONE_NEWNET)); err != nil {
			_, _ = os.Stderr.WriteString("palyra-cell: the template is lost: " + err.Error() + "\n")
			os.Exit(refused)
		}
	}()
	return do()
}

// fork makes a process that lives as f says. It has a copy of this process's memory, and of its threads the calling one.
func fork(f *first, spaces uintptr) (pid int, err error) {
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = math.MaxUint64
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil { // they stay blocked in the child
		return 0, err
	}
	r := split(f, spaces|uintptr(unix.SIGCHLD))
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
func split(f *first, flags uintptr) uintptr {
	r := f.sys(unix.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if r == 0 {
		f.live()
	}
	return r
}

// first writes down what the first process of a room must know.
func (m *maker) first(r *cell.Room, line, maker *os.File) *first {
	f := &first{
		line: line.Fd(), maker: maker.Fd(), filter: r.Filter, lastCap: m.lastCap,
		header: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3},
		polled: [2]unix.PollFd{{Fd: lineFD, Events: unix.POLLIN}, {Fd: childFD, Events: unix.POLLIN}},
	}
	f.iov.Base = &f.packet[0]
	f.message.Iov, f.message.Iovlen, f.message.Control = &f.iov, 1, &f.control[0]
	f.prog = unix.SockFprog{Len: uint16(len(r.Filter) / 8), Filter: filterAt(r.Filter)}
	one := func(id int) string { return fmt.Sprintf("%d %d 1\n", id, id) }
	f.set("/proc/self/oom_score_adj", "500", cell.StepNone) // when memory runs out the program goes first
	// Should the host's core pattern ignore the core limit, the dump holds nothing of the program's memory.
	f.set("/proc/self/coredump_filter", "0", cell.StepNone)
	f.set("/proc/self/setgroups", "deny", cell.StepNamespace)
	f.set("/proc/self/uid_map", one(m.uid), cell.StepNamespace)
	f.set("/proc/self/gid_map", one(m.gid), cell.StepNamespace)
	f.writes = append(f.writes, setting{}) // its own /proc
	f.set("/proc/sys/user/max_user_namespaces", "0", cell.StepNamespace)
	if w := r.Watching; w != (cell.Watching{}) {
		f.set(instancesPath, strconv.FormatInt(w.Instances, 10), cell.StepWatch)
		f.set(watchesPath, strconv.FormatInt(w.Watches, 10), cell.StepWatch)
	}
	for _, l := range r.Rlimits {
		f.rlimits = append(f.rlimits, rlimit{uintptr(l.Resource), l.Value, l.Value})
	}
	return f
}

func (f *first) set(path, value string, step byte) {
	p, _ := syscall.BytePtrFromString(path) // fails for a text with a zero byte
	f.writes = append(f.writes, setting{p, []byte(value), step})
}
