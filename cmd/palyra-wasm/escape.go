//go:build cgo && linux && escape

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A worker that was built with the tag escape has one more function for modules: it does with the worker's own rights what
// somebody would do who broke out of an instance. Only a test builds it.
func holes() map[string]function {
	return map[string]function{"palyra.escape": {"ii:i", func(_ *running, m memory, a []uint64) (uint64, error) {
		room, err := view(m, uint32(a[0]), uint32(a[1]))
		if err != nil {
			return 0, err
		}
		b, err := json.Marshal(escape())
		return uint64(copy(room, b)), err
	}}}
}

// escape tries everything, and says what came of it: an error, or that it worked.
func escape() map[string]string {
	said := map[string]string{}
	try := func(name string, err error) {
		said[name] = "WORKED"
		if err != nil {
			said[name] = err.Error()
		}
	}
	tryFiles(try)
	for name, family := range map[string]int{
		"inet": unix.AF_INET, "inet6": unix.AF_INET6, "unix": unix.AF_UNIX, "netlink": unix.AF_NETLINK, "vsock": unix.AF_VSOCK,
		"packet": unix.AF_PACKET,
	} {
		for kind, number := range map[string]int{"stream": unix.SOCK_STREAM, "datagram": unix.SOCK_DGRAM, "raw": unix.SOCK_RAW} {
			_, err := unix.Socket(family, number, 0)
			try("make a socket "+name+" "+kind, err)
		}
	}
	_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	try("make a pair of sockets", err)
	tryCalls(try)
	said["environment"] = fmt.Sprint(len(os.Environ()))
	for fd := 3; fd < 256; fd++ { // what is open beside the two pipes, stderr and the runtime's own
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil {
			said[fmt.Sprintf("descriptor %d", fd)] = fmt.Sprintf("%o", st.Mode&unix.S_IFMT)
		}
	}
	return said
}

func tryFiles(try func(string, error)) {
	for _, path := range []string{"/etc/passwd", "/", "/proc/self/environ", "/proc/self/mem", "/dev/null", "/tmp", "/proc/1/cmdline"} {
		f, err := os.Open(path)
		_ = f.Close()
		try("open "+path, err)
	}
	try("create a file", os.WriteFile("/tmp/escaped", []byte("x"), 0o600))
	try("create a directory", os.Mkdir("/tmp/escaped-dir", 0o700))
	_, err := os.Stat("/etc/passwd")
	try("look at a file", err)
	_, err = unix.MemfdCreate("x", 0)
	try("make a file in memory", err)
}

// tryCalls makes calls of the system with arguments that do nothing: they must be refused before anybody looks at those.
func tryCalls(try func(string, error)) {
	parent := uintptr(os.Getppid())
	for _, c := range []struct {
		name   string
		number uintptr
		a, b   uintptr
	}{
		{"execve", unix.SYS_EXECVE, 0, 0},
		{"execveat", unix.SYS_EXECVEAT, 0, 0},
		{"openat", unix.SYS_OPENAT, 0, 0},
		{"openat2", unix.SYS_OPENAT2, 0, 0},
		{"make a process", unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0},
		{"clone3", unix.SYS_CLONE3, 0, 0},
		{"ptrace", unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0},
		{"kill its cell", unix.SYS_KILL, parent, uintptr(unix.SIGKILL)},
		{"kill everybody", unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL)},
		{"read another's memory", unix.SYS_PROCESS_VM_READV, parent, 0},
		{"take another's descriptor", unix.SYS_PIDFD_OPEN, parent, 0},
		{"connect", unix.SYS_CONNECT, 0, 0},
		{"sendto", unix.SYS_SENDTO, 0, 0},
		{"io_uring", unix.SYS_IO_URING_SETUP, 1, 0},
		{"bpf", unix.SYS_BPF, 0, 0},
		{"unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0},
		{"mount", unix.SYS_MOUNT, 0, 0},
		{"setuid", unix.SYS_SETUID, 0, 0},
		{"keyctl", unix.SYS_KEYCTL, 0, 0},
		{"userfaultfd", unix.SYS_USERFAULTFD, 0, 0},
		{"perf", unix.SYS_PERF_EVENT_OPEN, 0, 0},
		{"set another's limits", unix.SYS_PRLIMIT64, parent, unix.RLIMIT_NOFILE},
	} {
		_, _, e := syscall.RawSyscall(c.number, c.a, c.b, 0)
		if e == 0 {
			try(c.name, nil)
		} else {
			try(c.name, e)
		}
	}
}
