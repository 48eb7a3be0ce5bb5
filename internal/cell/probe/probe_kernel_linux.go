package probe

import (
	"errors"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dwell is how long a probe stays over a limit: long enough to be seen by a watcher that only counts now and then.
const dwell = 1500 * time.Millisecond

// forkRaw makes a child that is on its own: it may only make raw system calls.
//
//go:nosplit
func forkRaw(flags uintptr) (uintptr, unix.Errno) {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, e
}

// stayForever never returns.
//
//go:nosplit
func stayForever() {
	for {
		unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// forkMany makes so many children and waits beside them. They end with the run.
func forkMany(a []string) (string, error) {
	runtime.LockOSThread()
	n := numberOf(a[0])
	for i := range n {
		pid, e := forkRaw(0)
		if e != 0 {
			return strconv.Itoa(i) + " made", e
		}
		if pid == 0 {
			stayForever()
		}
	}
	<-time.After(dwell)
	return strconv.Itoa(n) + " made", nil
}

// fillMemory allocates so many MiB, touches every page and holds them.
func fillMemory(a []string) (string, error) {
	const mebi, populateWrite = 1 << 20, 23
	n := numberOf(a[0])
	for i := range n {
		b, err := unix.Mmap(-1, 0, mebi, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err == nil {
			err = unix.Madvise(b, populateWrite)
		}
		if errors.Is(err, unix.EINVAL) { // a kernel before 5.14
			for at := 0; at < mebi; at += 4096 {
				b[at] = 1
			}
			err = nil
		}
		if err != nil {
			return strconv.Itoa(i) + " MiB", err
		}
	}
	<-time.After(dwell)
	return strconv.Itoa(n) + " MiB", nil
}

// tryCall makes one system call that no program here needs, in a form that a kernel without a filter would take.
func tryCall(a []string) (string, error) {
	call, known := map[string]func() error{
		"ptrace": tracing, "mount": mounting, "unshare": unsharing, "keyctl": keyring, "bpf": bpfMap,
		"io_uring_setup": ioRing, "userfaultfd": faults, "perf_event_open": counting,
	}[a[0]]
	if !known {
		return "", errors.New("there is no such call")
	}
	runtime.LockOSThread()
	return "", call()
}

// tracing attaches to a child: asking to be traced would make the supervisor the tracer.
func tracing() error {
	pid, e := forkRaw(0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		stayForever()
	}
	const seize = 0x4206
	_, _, e = unix.Syscall6(unix.SYS_PTRACE, seize, pid, 0, 0, 0, 0)
	_ = unix.Kill(int(pid), unix.SIGKILL)
	if e != 0 {
		return e
	}
	return nil
}

// mounting mounts an empty file system over the workspace, and unmounts it again.
func mounting() error {
	if err := unix.Mount("palyra", ".", "tmpfs", 0, "size=4096"); err != nil {
		return err
	}
	return unix.Unmount(".", unix.MNT_DETACH)
}

// unsharing asks for namespaces by clone and by unshare. A program with threads gets EINVAL from
// unshare itself, where no filter answers first.
func unsharing() error {
	if err := unix.Unshare(unix.CLONE_NEWUSER); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	pid, e := forkRaw(unix.CLONE_NEWUSER)
	if e != 0 {
		return e
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return nil
}

func keyring() error {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	return err
}

func bpfMap() error {
	const create, array = 0, 2
	attr := [32]uint32{array, 4, 4, 1}
	return descriptor(unix.SYS_BPF, create, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

func ioRing() error {
	var params [128]byte
	return descriptor(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
}

func faults() error {
	const userModeOnly = 1
	return descriptor(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
}

// descriptor makes a system call that returns a descriptor, and closes it.
//
//go:uintptrescapes
func descriptor(nr, a, b, c uintptr) error {
	fd, _, e := unix.Syscall(nr, a, b, c)
	if e != 0 {
		return e
	}
	return unix.Close(int(fd))
}

func counting() error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
