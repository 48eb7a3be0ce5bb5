package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/exetest"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/celltest"
)

// probeVar makes the test binary a program that tries things from inside a run.
const probeVar = "PALYRA_TEST_PROBE"

// rlimitLocks carries the mark.
const rlimitLocks = 10

// call is a system call tried from inside, and the answer it must get there.
type call struct {
	name string
	nr   uintptr
	args [6]uintptr
	want syscall.Errno
}

func calls() []call {
	const cloneUser = unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)
	path := func(s string) uintptr { p, _ := unix.BytePtrFromString(s); return uintptr(unsafe.Pointer(p)) }
	var pair [2]int32
	var limit unix.Rlimit
	pairs, limits := uintptr(unsafe.Pointer(&pair)), uintptr(unsafe.Pointer(&limit))
	here, parent := ^uintptr(99), uintptr(os.Getppid())
	const high = 1 << 32 // kernels look at 32 bits of an int only, and so must the filter
	return []call{
		{"ptrace", unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_TRACEME}, unix.EPERM},
		{"unshare a user namespace", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}, unix.EPERM},
		{"mount", unix.SYS_MOUNT, [6]uintptr{path("none"), path("/tmp"), path("tmpfs")}, unix.EPERM},
		{"chroot", unix.SYS_CHROOT, [6]uintptr{path("/")}, unix.EPERM},
		{"bpf", unix.SYS_BPF, [6]uintptr{}, unix.EPERM},
		{"keyctl", unix.SYS_KEYCTL, [6]uintptr{}, unix.EPERM},
		{"add_key", unix.SYS_ADD_KEY, [6]uintptr{}, unix.EPERM},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{1}, unix.EPERM},
		{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{}, unix.EPERM},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{}, unix.EPERM},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [6]uintptr{parent}, unix.EPERM},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [6]uintptr{}, unix.EPERM},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{}, unix.EPERM},
		{"shmget", unix.SYS_SHMGET, [6]uintptr{0, 4096, unix.IPC_CREAT | 0o600}, unix.EPERM},
		{"mq_open", unix.SYS_MQ_OPEN, [6]uintptr{}, unix.EPERM},
		{"inotify_init1", unix.SYS_INOTIFY_INIT1, [6]uintptr{}, unix.EPERM},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, [6]uintptr{}, unix.EPERM},
		{"clone3", unix.SYS_CLONE3, [6]uintptr{}, unix.ENOSYS},
		{"openat2", unix.SYS_OPENAT2, [6]uintptr{}, unix.ENOSYS},
		{"a number that is not yet", 1999, [6]uintptr{}, unix.ENOSYS},
		{"clone a user namespace", unix.SYS_CLONE, [6]uintptr{cloneUser}, unix.EPERM},
		{"clone a user namespace, high bits set", unix.SYS_CLONE, [6]uintptr{high | cloneUser}, unix.EPERM},
		{"a unix socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM}, unix.EPERM},
		{"an internet socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_STREAM}, unix.EPERM},
		{"an internet socket, version 6", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET6, unix.SOCK_DGRAM}, unix.EPERM},
		{"a netlink socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW}, unix.EPERM},
		{"a vsock socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}, unix.EPERM},
		{"a packet socket", unix.SYS_SOCKET, [6]uintptr{unix.AF_PACKET, unix.SOCK_RAW}, unix.EPERM},
		{"connect", unix.SYS_CONNECT, [6]uintptr{here}, unix.EPERM},
		{"bind", unix.SYS_BIND, [6]uintptr{here}, unix.EPERM},
		{"a pair of streams", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0, pairs}, 0},
		{"a pair of datagrams", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0, pairs}, unix.EPERM},
		{"TIOCSTI", unix.SYS_IOCTL, [6]uintptr{0, unix.TIOCSTI}, unix.EPERM},
		{"TIOCSTI, high bits set", unix.SYS_IOCTL, [6]uintptr{0, high | unix.TIOCSTI}, unix.EPERM},
		{"TIOCLINUX", unix.SYS_IOCTL, [6]uintptr{0, 0x541c}, unix.EPERM},
		{"an ordinary ioctl", unix.SYS_IOCTL, [6]uintptr{here, unix.TCGETS}, unix.EBADF},
		{"personality", unix.SYS_PERSONALITY, [6]uintptr{0x0400000}, unix.EPERM},
		{"ask for the personality", unix.SYS_PERSONALITY, [6]uintptr{0xffffffff}, 0},
		{"limit the supervisor", unix.SYS_PRLIMIT64, [6]uintptr{parent, unix.RLIMIT_NOFILE, limits}, unix.EPERM},
		{"put off the mark", unix.SYS_PRLIMIT64, [6]uintptr{0, rlimitLocks, limits}, unix.EPERM},
		{"put off the mark, high bits set", unix.SYS_PRLIMIT64, [6]uintptr{0, high | rlimitLocks, limits}, unix.EPERM},
		{"put off the mark the old way", unix.SYS_SETRLIMIT, [6]uintptr{rlimitLocks, limits}, unix.EPERM},
		{"read an own limit", unix.SYS_PRLIMIT64, [6]uintptr{0, unix.RLIMIT_NOFILE, 0, limits}, 0},
		{"make the supervisor slow", unix.SYS_SETPRIORITY, [6]uintptr{unix.PRIO_PROCESS, parent, 19}, unix.EPERM},
		{"pin the supervisor", unix.SYS_SCHED_SETAFFINITY, [6]uintptr{parent, 8, limits}, unix.EPERM},
		{"signal the supervisor", unix.SYS_KILL, [6]uintptr{parent, 0}, unix.EPERM},
		{"signal init", unix.SYS_KILL, [6]uintptr{1, 0}, unix.EPERM},
		{"a set-user-id file", unix.SYS_OPENAT, [6]uintptr{dirHere, path("suid"), unix.O_CREAT | unix.O_WRONLY, 0o4755}, unix.EPERM},
		{"a set-user-id bit", unix.SYS_FCHMODAT, [6]uintptr{dirHere, path("."), 0o4755}, unix.EPERM},
		{"a set-user-id node", unix.SYS_MKNODAT, [6]uintptr{dirHere, path("node"), unix.S_IFREG | 0o4755}, unix.EPERM},
		{"give a file away", unix.SYS_FCHOWNAT, [6]uintptr{dirHere, path("."), 1, 1}, unix.EPERM},
		{"own what is owned", unix.SYS_FCHOWNAT, [6]uintptr{dirHere, path("."), uintptr(os.Getuid()), ^uintptr(0)}, 0},
		{"an attribute by path", unix.SYS_SETXATTR, [6]uintptr{path("."), path("user.x"), path("x"), 1}, unix.EOPNOTSUPP},
		{"read the shadow file", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/etc/shadow")}, unix.EACCES},
		{"list the root", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/"), unix.O_DIRECTORY}, unix.EACCES},
		{"list the processes", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/proc"), unix.O_DIRECTORY}, unix.EACCES},
		{"read init's command", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/proc/1/cmdline")}, unix.EACCES},
		{"read the supervisor's limits", unix.SYS_OPENAT, [6]uintptr{dirHere, path(fmt.Sprintf("/proc/%d/limits", parent))}, unix.EACCES},
		{"list /tmp", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/tmp"), unix.O_DIRECTORY}, unix.EACCES},
		{"list /var", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/var"), unix.O_DIRECTORY}, unix.EACCES},
		{"list /home", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/home"), unix.O_DIRECTORY}, unix.EACCES},
		{"write into /dev", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/dev/probe"), unix.O_CREAT | unix.O_WRONLY, 0o600}, unix.EACCES},
		{"share memory by name", unix.SYS_OPENAT, [6]uintptr{dirHere, path("/dev/shm/probe"), unix.O_CREAT | unix.O_WRONLY, 0o600}, unix.EACCES},
		{"truncate what is outside", unix.SYS_TRUNCATE, [6]uintptr{path("/etc/hosts"), 0}, unix.EACCES},
		{"the private directory itself", unix.SYS_MKDIRAT, [6]uintptr{dirHere, path(os.Getenv("HOME") + "/../x"), 0o700}, unix.EACCES},
		{"a program where none may be put", unix.SYS_OPENAT, [6]uintptr{
			dirHere, path(os.Getenv("HOME") + "/../exe/x"),
			unix.O_CREAT | unix.O_WRONLY, 0o700,
		}, unix.EACCES},
		{"a named socket", unix.SYS_MKNODAT, [6]uintptr{dirHere, path("socket"), unix.S_IFSOCK | 0o600}, unix.EACCES},
	}
}

var dirHere = func() uintptr { fd := unix.AT_FDCWD; return uintptr(fd) }()

// probe is the program. The calls are made one after the other on one thread.
func probe(what string) int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // the calls hold addresses as numbers
	switch what {
	case "calls":
		for _, c := range calls() {
			_, _, e := syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
			if e != c.want {
				fmt.Printf("%s: %d (%v), want %d\n", c.name, e, e, c.want)
			}
		}
		fmt.Println("done")
	case "int80":
		int80()
	case "x32":
		_, _, e := syscall.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0)
		fmt.Println("survived", e)
	case "state":
		status, _ := os.ReadFile("/proc/self/status")
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); slices.Contains([]string{
				"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:",
				"Seccomp:", "Groups:", "SigIgn:", "SigBlk:",
			}, f[0]) {
				fmt.Println(strings.Join(f, " "))
			}
		}
		for _, fd := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16} {
			if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && !strings.HasPrefix(link, "anon_inode:") {
				fmt.Printf("fd %d\n", fd)
			}
		}
	}
	return 0
}

// inside puts the test binary into the workspace as a program that probes.
func (s *stage) inside(what string) sandbox.Job {
	s.t.Helper()
	prog := filepath.Join(s.workspace, "probe")
	if err := exetest.Copy(prog, "/proc/self/exe"); err != nil {
		s.t.Fatal(err)
	}
	j := s.job(prog)
	j.Env = append(j.Env, probeVar+"="+what)
	return j
}

func TestForbiddenCalls(t *testing.T) {
	s := newStage(t)
	x := celltest.Run(t, open(t, config(t)), s.inside("calls"))
	if x.Code != 0 || s.printed() != "done" {
		t.Errorf("exit %+v:\n%s", x, s.printed())
	}
}

func TestForeignABIKills(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("UNPROVEN HERE: only amd64 has other ABIs in one process")
	}
	b := open(t, config(t))
	for _, what := range []string{"int80", "x32"} {
		s := newStage(t)
		if x := celltest.Run(t, b, s.inside(what)); x.Signal != "SIGSYS" || strings.Contains(s.printed(), "survived") {
			t.Errorf("%s: %+v %q", what, x, s.printed())
		}
	}
}

// TestState looks at what the kernel says about a process inside.
func TestState(t *testing.T) {
	s := newStage(t)
	celltest.Run(t, open(t, config(t)), s.inside("state"))
	want := `SigBlk: 0000000000000000
SigIgn: 0000000000000000
CapInh: 0000000000000000
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapBnd: 0000000000000000
CapAmb: 0000000000000000
NoNewPrivs: 1
Seccomp: 2
fd 0
fd 1
fd 2`
	got := s.printed()
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if os.Geteuid() != 0 && strings.HasPrefix(line, "CapBnd") {
			continue // only root can clear it, and no_new_privs makes it moot
		}
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
	if strings.Contains(got, "fd 3") {
		t.Errorf("more descriptors than three:\n%s", got)
	}
	if os.Geteuid() == 0 && !strings.Contains(got+"\n", "Groups:\n") {
		t.Errorf("root's groups are kept:\n%s", got)
	}
}
