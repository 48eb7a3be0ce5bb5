package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// program is a Spec made ready, so that become allocates no memory.
type program struct {
	spec    cell.Spec
	stdio   [3]int
	sealed  int // descriptor of the program, or -1
	ruleset int
	path    *byte
	cwd     *byte
	argv    []*byte
	envv    []*byte
	stays   bool // the launcher keeps its uid
	parent  int
}

func (p *program) pointers() (err error) {
	if p.path, err = syscall.BytePtrFromString(p.spec.Path); err != nil {
		return err
	}
	if p.cwd, err = syscall.BytePtrFromString(p.spec.Cwd); err != nil {
		return err
	}
	if p.argv, err = syscall.SlicePtrFromStrings(p.spec.Argv); err != nil {
		return err
	}
	p.envv, err = syscall.SlicePtrFromStrings(p.spec.Env)
	return err
}

// become applies the Spec to this thread and executes the program; it returns only on failure. Each step is a raw
// system call: nothing here may wake Go's scheduler, start a thread or grow the heap, least of all once the
// program's own limits hold. A step that fails ends the launcher, so none can be left out.
func (p *program) become() (step string, e unix.Errno) {
	for _, s := range [...]struct {
		name string
		do   func(*program) unix.Errno
	}{
		{"descriptors", (*program).descriptors},
		{"terminal", (*program).terminal},
		{"nice", (*program).nice},
		{"rlimit", (*program).rlimits},
		{"uid", (*program).identity},
		{"capabilities", (*program).dropCapabilities},
		{"parent", (*program).followParent},
		{"cwd", (*program).enter},
		{"signals", (*program).signals},
		{"landlock", (*program).confine},
		{"seccomp", (*program).filter},
		{"exec", (*program).exec},
	} {
		if e := s.do(p); e != 0 {
			return s.name, e
		}
	}
	return "exec", unix.EIO
}

// descriptors puts the program's own at 0, 1 and 2, in blocking mode as programs expect, and has
// every other one closed by exec.
func (p *program) descriptors() unix.Errno {
	for i, fd := range p.stdio {
		if _, _, e := unix.RawSyscall(unix.SYS_DUP3, uintptr(fd), uintptr(i), 0); e != 0 {
			return e
		}
		flags, _, e := unix.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_GETFL, 0)
		if e != 0 {
			return e
		}
		if flags&unix.O_NONBLOCK == 0 {
			continue
		}
		if _, _, e := unix.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_SETFL, flags&^unix.O_NONBLOCK); e != 0 {
			return e
		}
	}
	_, _, e := unix.RawSyscall(unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC)
	return e
}

// terminal makes stdin the controlling terminal of the session that the launcher has led since it was started.
func (p *program) terminal() unix.Errno {
	if !p.spec.Terminal {
		return 0
	}
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	return e
}

func (p *program) nice() unix.Errno {
	_, _, _ = unix.RawSyscall(unix.SYS_UMASK, 0o022, 0, 0)
	if p.spec.Nice == 0 {
		return 0
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(p.spec.Nice))
	return e
}

// rlimits comes before the change of uid: raising a hard limit may need root. The CPU limit leaves a second
// between soft and hard, or the kernel would kill without the SIGXCPU that shows the reason.
func (p *program) rlimits() unix.Errno {
	for i := range p.spec.Rlimits {
		r := &p.spec.Rlimits[i]
		limit := unix.Rlimit{Cur: r.Value, Max: r.Value}
		if r.Resource == unix.RLIMIT_CPU && r.Value < unix.RLIM_INFINITY-1 {
			limit.Max++
		}
		e := setLimit(r.Resource, &limit)
		if e == unix.EPERM && limit.Max != limit.Cur {
			limit.Max--
			e = setLimit(r.Resource, &limit)
		}
		if e != 0 {
			return e
		}
	}
	return 0
}

func setLimit(resource int, limit *unix.Rlimit) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(resource), uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	return e
}

// followParent makes the program die with the supervisor's hand. A change of uid has cleared the
// death signal that the hand set, and on other threads it never held. A launcher whose parent is
// gone already fails: the signal would never come.
func (p *program) followParent() unix.Errno {
	if _, _, e := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0); e != 0 {
		return e
	}
	if now, _, _ := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); int(now) != p.parent {
		return unix.ESRCH
	}
	return 0
}

// enter changes to the working directory, as the owner, by a path without links: somebody who put
// one there since the plan was made must not choose the place.
func (p *program) enter() unix.Errno {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	at := unix.AT_FDCWD
	fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT2, uintptr(at), uintptr(unsafe.Pointer(p.cwd)), uintptr(unsafe.Pointer(&how)),
		unsafe.Sizeof(how), 0, 0)
	if e != 0 {
		return e
	}
	_, _, e = unix.RawSyscall(unix.SYS_FCHDIR, fd, 0, 0)
	return e
}

// signals gives every signal its default meaning and blocks none. Exec does this for handlers only:
// a signal that the daemon's parents ignored would stay ignored.
func (p *program) signals() unix.Errno {
	const most, setSize = 64, 8
	var none [8]uint64 // a struct sigaction, larger than any system's
	for sig := uintptr(1); sig <= most; sig++ {
		if sig == uintptr(unix.SIGKILL) || sig == uintptr(unix.SIGSTOP) {
			continue
		}
		if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&none)), 0, setSize, 0, 0); e != 0 {
			return e
		}
	}
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0, setSize, 0, 0)
	return e
}

// confine enters the ruleset. no_new_privs holds since the supervisor's hand set
// it; setting it again makes this step stand by itself.
func (p *program) confine() unix.Errno {
	if _, _, e := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return e
	}
	return restrict(p.ruleset)
}

// filter says that exec comes next, while it still may speak, and installs the
// seccomp filter on this thread, the only one that exec keeps.
func (p *program) filter() unix.Errno {
	word := [1]byte{sayExec}
	say(word[:])
	code := p.spec.Filter
	prog := unix.SockFprog{Len: uint16(len(code) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&code[0]))}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	return e
}

func (p *program) exec() unix.Errno {
	if p.sealed >= 0 {
		var empty [1]byte
		_, _, e := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(p.sealed), uintptr(unsafe.Pointer(&empty)),
			uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.envv[0])), unix.AT_EMPTY_PATH, 0)
		return e
	}
	_, _, e := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(p.path)),
		uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.envv[0])))
	return e
}
