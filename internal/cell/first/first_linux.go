package first

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The descriptors of the first process of a room.
const (
	lineFD  = 3 // its Line: the daemon
	makerFD = 4 // the template, until the room is built
	rulesFD = 5 // the ruleset of what will run
	childFD = 6 // tells of children that ended
	imageFD = 7 // of a run, and the three streams after it
	runFDs  = 4
)

// The packets between a template and the first process of a room that it makes.
const (
	sayBorn  = 'b' // the process has its namespaces, and /proc; or a failure, as on a Line
	sayBuilt = 'g' // with a descriptor of the ruleset: the room is built
)

// process is the first process of a room. The template fills it in; whatever it points to was made before the process
// began, which has a copy of it.
type process struct {
	syscallArgs
	failed byte       // the step of a program that was not started
	errno  unix.Errno // and its error

	line, maker uintptr // descriptors, as the template has them
	writes      []setting
	rlimits     []rlimit
	filter      []byte
	lastCap     uintptr

	packet  [64]byte
	control [64]byte
	iov     unix.Iovec
	message unix.Msghdr
	fds     uintptr // how many came

	polled    [2]unix.PollFd
	mask      uint64
	none      [8]uint64 // a struct sigaction, larger than any system's
	info      [128]byte // a struct signalfd_siginfo
	caps      [2]unix.CapUserData
	capHeader unix.CapUserHeader
	prog      unix.SockFprog
	allow     unix.LandlockPathBeneathAttr
	stat      unix.Stat_t
	usage     unix.Rusage

	// of a launcher alone
	parent uintptr // the process that made it
	shared uintptr // where its image will be
	bounds bool    // it may clear its bounding set
	how    unix.OpenHow
	daemon uintptr // the socket to the daemon; 0: there is none
	became uintptr // 1: it is its program's user already, and filtered
	clone  cloneArgs

	program uintptr // its process; 0: none
	exited  bool
	status  uint32
	cause   byte
	killed  uint32
	micros  uint64
	peak    uint64
}

// cloneArgs is the kernel's struct clone_args.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// setting is a file of /proc and what is written to it.
type setting struct {
	path  *byte
	value []byte
	step  byte   // of a failure; StepNone: a failure costs no protection
	name  string // the path, for who copies it
}

// rlimit is a limit of everything in a room.
type rlimit struct {
	resource   uintptr
	soft, hard uint64
}

//go:nosplit
//go:norace
func (f *process) sys(nr, a, b, c, d, e, g uintptr) uintptr {
	f.nr = nr
	f.args[0], f.args[1], f.args[2], f.args[3], f.args[4], f.args[5] = a, b, c, d, e, g
	raw(&f.syscallArgs)
	return f.result
}

// alive is the whole life of the process, or of a launcher off a crib. It is no method, so that assembly calls it without
// one more frame between: the linker bounds all of them together, also where fuzzing makes them larger.
//
//go:nosplit
//go:norace
func alive(f *process) {
	if f.shared != 0 {
		f.launch()
	}
	if step, e := f.settle(); e != 0 {
		f.say(makerFD, step, e)
		f.exit()
	}
	f.packet[0] = sayBorn
	f.send(makerFD, 1)
	if n := f.receive(makerFD, rulesFD, runFDs); n != 1 || f.packet[0] != sayBuilt || f.fds != 1 {
		f.exit() // the template found a fault, or is gone
	}
	f.sys(unix.SYS_CLOSE, makerFD, 0, 0, 0, 0, 0)
	for {
		f.obey()
	}
}

// settle makes the namespaces usable: who is who in them, and a /proc of its own. It is done with the rights that a new
// user namespace gives.
//
//go:nosplit
//go:norace
func (f *process) settle() (step byte, e unix.Errno) {
	if e := f.descriptors(); e != 0 {
		return cell.StepDescriptors, e
	}
	f.sys(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	f.sys(unix.SYS_UMASK, 0o022, 0, 0, 0, 0, 0)
	// Its files in /proc are its own only while it can be looked into, and nobody is there yet who could.
	f.sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0, 0)
	for i := range f.writes {
		w := &f.writes[i]
		if w.path == nil {
			if e := f.ownProc(); e != 0 {
				return cell.StepNamespace, e
			}
			continue
		}
		if e := f.write(w); e != 0 && w.step != cell.StepNone {
			return w.step, e
		}
	}
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)); e != 0 {
		return cell.StepNamespace, e
	}
	for i := range f.rlimits {
		l := &f.rlimits[i]
		if e := errnoOf(f.sys(unix.SYS_PRLIMIT64, 0, l.resource, uintptr(unsafe.Pointer(&l.soft)), 0, 0, 0)); e != 0 {
			return cell.StepRlimit, e
		}
	}
	return f.signals()
}

// descriptors leaves the process its two sockets, and what it has of its template's at 0, 1 and 2.
//
//go:nosplit
//go:norace
func (f *process) descriptors() unix.Errno {
	// above everything that is put in place
	line := f.sys(unix.SYS_FCNTL, f.line, unix.F_DUPFD_CLOEXEC, 16, 0, 0, 0)
	maker := f.sys(unix.SYS_FCNTL, f.maker, unix.F_DUPFD_CLOEXEC, 16, 0, 0, 0)
	if bad(line) || bad(maker) {
		return unix.EMFILE
	}
	if e := errnoOf(f.sys(unix.SYS_DUP3, line, lineFD, unix.O_CLOEXEC, 0, 0, 0)); e != 0 {
		return e
	}
	if e := errnoOf(f.sys(unix.SYS_DUP3, maker, makerFD, unix.O_CLOEXEC, 0, 0, 0)); e != 0 {
		return e
	}
	return errnoOf(f.sys(unix.SYS_CLOSE_RANGE, makerFD+1, uintptr(^uint32(0)), 0, 0, 0, 0))
}

// write writes a setting, which must be taken whole.
//
//go:nosplit
//go:norace
func (f *process) write(w *setting) unix.Errno {
	at := unix.AT_FDCWD
	fd := f.sys(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(w.path)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	if bad(fd) {
		return errnoOf(fd)
	}
	n := f.sys(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&w.value[0])), uintptr(len(w.value)), 0, 0, 0)
	f.sys(unix.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
	if !bad(n) && n != uintptr(len(w.value)) {
		return unix.EIO
	}
	return errnoOf(n)
}

var (
	procName = []byte("proc\x00")
	procPath = []byte("/proc\x00")
)

// ownProc mounts the file system about this process's own pid namespace.
//
//go:nosplit
//go:norace
func (f *process) ownProc() unix.Errno {
	name := uintptr(unsafe.Pointer(&procName[0]))
	return errnoOf(f.sys(unix.SYS_MOUNT, name, uintptr(unsafe.Pointer(&procPath[0])), name,
		unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, 0, 0))
}

// setSize is that of the kernel's set of signals.
const setSize = 8

// defaults gives every signal its default meaning: those that are ignored would be ignored by programs, too.
//
//go:nosplit
//go:norace
func (f *process) defaults() unix.Errno {
	const most = 64
	for sig := uintptr(1); sig <= most; sig++ {
		if sig == uintptr(unix.SIGKILL) || sig == uintptr(unix.SIGSTOP) {
			continue
		}
		if e := errnoOf(f.sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&f.none)), 0, setSize, 0, 0)); e != 0 {
			return e
		}
	}
	return 0
}

// signals has the end of children read from a descriptor. All signals stay blocked here.
//
//go:nosplit
//go:norace
func (f *process) signals() (step byte, e unix.Errno) {
	if e := f.defaults(); e != 0 {
		return cell.StepSignals, e
	}
	f.mask = 1 << (uintptr(unix.SIGCHLD) - 1)
	fd := f.sys(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&f.mask)), setSize, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if bad(fd) {
		return cell.StepSignals, errnoOf(fd)
	}
	if fd == childFD {
		return cell.StepNone, 0
	}
	return cell.StepSignals, errnoOf(f.sys(unix.SYS_DUP3, fd, childFD, unix.O_CLOEXEC, 0, 0, 0))
}

// exit ends the process, and with it whatever is in its pid namespace.
//
//go:nosplit
//go:norace
func (f *process) exit() {
	for {
		f.sys(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
	}
}

// send sends the first bytes of the packet.
//
//go:nosplit
//go:norace
func (f *process) send(fd, n uintptr) {
	f.sys(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&f.packet)), n, unix.MSG_NOSIGNAL, 0, 0)
}

// say tells of a failure.
//
//go:nosplit
//go:norace
func (f *process) say(fd uintptr, step byte, e unix.Errno) {
	f.packet[0], f.packet[1] = cell.LineFailed, step
	f.put32(2, uint32(e))
	f.send(fd, 6)
}

//go:nosplit
//go:norace
func (f *process) put32(at uintptr, v uint32) {
	*(*uint32)(unsafe.Add(unsafe.Pointer(&f.packet), at)) = v
}

//go:nosplit
//go:norace
func (f *process) put64(at uintptr, v uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(&f.packet), at)) = v
}

// receive receives a packet and puts the descriptors that came with it, most at most, in their place from to on. It
// returns the packet's length; 0: the other end is gone, or said what makes no sense.
//
//go:nosplit
//go:norace
func (f *process) receive(fd, to, most uintptr) uintptr {
	f.message.Controllen, f.message.Flags, f.iov.Len = uint64(len(f.control)), 0, uint64(len(f.packet))
	n := f.sys(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&f.message)), unix.MSG_CMSG_CLOEXEC, 0, 0, 0)
	f.fds = 0
	if bad(n) || f.message.Flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return 0
	}
	if f.message.Controllen == 0 {
		return n
	}
	head := (*unix.Cmsghdr)(unsafe.Pointer(&f.control))
	if head.Level != unix.SOL_SOCKET || head.Type != unix.SCM_RIGHTS || head.Len < unix.SizeofCmsghdr {
		return 0
	}
	count := (uintptr(head.Len) - unix.SizeofCmsghdr) / 4
	if count > most {
		return 0
	}
	return f.place(n, count, to)
}

// place moves descriptors that came to where they are looked for.
//
//go:nosplit
//go:norace
func (f *process) place(n, count, to uintptr) uintptr {
	const high = 32 // first above all places, so that none is overwritten
	for i := uintptr(0); i < count; i++ {
		at := (*int32)(unsafe.Add(unsafe.Pointer(&f.control), unix.SizeofCmsghdr+4*i))
		moved := f.sys(unix.SYS_FCNTL, uintptr(*at), unix.F_DUPFD_CLOEXEC, high, 0, 0, 0)
		if bad(moved) {
			return 0
		}
		f.sys(unix.SYS_CLOSE, uintptr(*at), 0, 0, 0, 0, 0)
		*at = int32(moved)
	}
	for i := uintptr(0); i < count; i++ {
		at := (*int32)(unsafe.Add(unsafe.Pointer(&f.control), unix.SizeofCmsghdr+4*i))
		r := f.sys(unix.SYS_DUP3, uintptr(*at), to+i, unix.O_CLOEXEC, 0, 0, 0)
		f.sys(unix.SYS_CLOSE, uintptr(*at), 0, 0, 0, 0, 0)
		if bad(r) {
			return 0
		}
	}
	f.fds = count
	return n
}
