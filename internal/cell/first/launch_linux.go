package first

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The launcher of a cell has its socket at lineFD. The descriptors of its run come from imageFD on: a ruleset, the three
// streams and, if it executes a descriptor, that one. The image lies in memory that it shares with its supervisor. A
// launcher that became the user ahead has its run from the daemon at daemonFD, with the image before the program.
const (
	launchFDs = runFDs + 2
	daemonFD  = makerFD
	givenFD   = imageFD + runFDs // an image from the daemon
)

// sayRun is the packet of a run, sayBecome that of becoming the user ahead; LineStarted from the launcher means that exec
// comes next.
const (
	sayRun    = cell.LineRun
	sayBecome = 'u'
)

// launch is the whole life of a launcher: it does ahead what it can, waits for its run, and becomes the program.
//
//go:nosplit
//go:norace
func (f *process) launch() {
	if step, e := f.prepareLaunch(); e != 0 {
		f.say(lineFD, step, e)
		f.exit()
	}
	n, base := f.receive(lineFD, imageFD, launchFDs), f.shared
	if n == 1 && f.packet[0] == sayBecome && f.fds == 0 {
		n, base = f.becomeAhead(base)
	}
	if n == 0 && f.fds == 0 {
		f.exit() // the supervisor, or the daemon, is gone
	}
	if n != 1 || f.packet[0] != sayRun || f.fds < runFDs {
		f.say(lineFD, cell.StepProtocol, unix.EBADMSG)
		f.exit()
	}
	step, e := f.apply(base)
	if e == 0 {
		f.packet[0] = cell.LineStarted
		f.send(lineFD, 1)
		step, e = f.execute(base)
	}
	f.say(lineFD, step, e)
	f.exit()
}

// becomeAhead becomes the user of an image, under its limits and its filter, and waits for the run of that user. Whoever else
// has that user cannot look into the process, and a signal of theirs ends what has not begun.
//
//go:nosplit
//go:norace
func (f *process) becomeAhead(base uintptr) (n, image uintptr) {
	step, e := byte(cell.StepRlimit), f.limits(base)
	if e == 0 {
		step, e = f.settleAs(base)
	}
	if e == 0 {
		step, e = f.filtered(base)
	}
	if e != 0 {
		f.say(lineFD, step, e)
		f.exit()
	}
	f.became = 1
	if n = f.receive(daemonFD, imageFD, launchFDs); n == 0 {
		f.exit()
	}
	if n != 1 || f.packet[0] != sayRun || f.fds <= runFDs {
		f.say(lineFD, cell.StepProtocol, unix.EBADMSG)
		f.exit()
	}
	if image, e = f.image(givenFD); e != 0 {
		f.say(lineFD, cell.StepImage, e)
		f.exit()
	}
	return n, image
}

// prepareLaunch does what is the same for every program.
//
//go:nosplit
//go:norace
func (f *process) prepareLaunch() (step byte, e unix.Errno) {
	if e := f.sockets(); e != 0 {
		return cell.StepDescriptors, e
	}
	f.sys(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0) // fails only for who leads a group already
	f.sys(unix.SYS_UMASK, 0o022, 0, 0, 0, 0, 0)
	// Its files in /proc are its own only while it can be looked into.
	f.sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0, 0)
	for i := range f.writes {
		f.write(&f.writes[i]) // a failure costs no protection
	}
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)); e != 0 {
		return cell.StepDescriptors, e
	}
	if e := f.follow(); e != 0 {
		return cell.StepParent, e
	}
	if e := f.bounding(); e != 0 {
		return cell.StepCapabilities, e
	}
	return cell.StepSignals, f.defaults()
}

// sockets leaves the process that to its supervisor and, if there is one, that to the daemon.
//
//go:nosplit
//go:norace
func (f *process) sockets() unix.Errno {
	line := f.sys(unix.SYS_FCNTL, f.line, unix.F_DUPFD_CLOEXEC, imageFD, 0, 0, 0)
	if bad(line) {
		return errnoOf(line)
	}
	keep := uintptr(lineFD)
	if f.daemon != 0 {
		keep = daemonFD
		daemon := f.sys(unix.SYS_FCNTL, f.daemon, unix.F_DUPFD_CLOEXEC, imageFD, 0, 0, 0)
		if bad(daemon) {
			return errnoOf(daemon)
		}
		if e := errnoOf(f.sys(unix.SYS_DUP3, daemon, daemonFD, unix.O_CLOEXEC, 0, 0, 0)); e != 0 {
			return e
		}
	}
	if e := errnoOf(f.sys(unix.SYS_DUP3, line, lineFD, unix.O_CLOEXEC, 0, 0, 0)); e != 0 {
		return e
	}
	return errnoOf(f.sys(unix.SYS_CLOSE_RANGE, keep+1, uintptr(^uint32(0)), 0, 0, 0, 0))
}

// follow has the process die with the thread that made it. A process whose parent is gone already fails: the signal
// would never come.
//
//go:nosplit
//go:norace
func (f *process) follow() unix.Errno {
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)); e != 0 {
		return e
	}
	if f.sys(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0) != f.parent {
		return unix.ESRCH
	}
	return 0
}

// bounding empties the ambient and the bounding set, as long as it may: whoever may not belongs to an ordinary user, whom
// no_new_privs keeps from ever gaining what the set would allow.
//
//go:nosplit
//go:norace
func (f *process) bounding() unix.Errno {
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)); e != 0 {
		return e
	}
	for c := uintptr(0); f.bounds && c <= f.lastCap; c++ {
		e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0))
		if e == unix.EINVAL && c > 0 {
			break // a kernel older than this program has no more
		}
		if e != 0 {
			return e
		}
	}
	return 0
}

// apply applies the image to the process, all but the filter. A step that fails ends the launcher, so none can be left
// out.
//
//go:nosplit
//go:norace
func (f *process) apply(base uintptr) (step byte, e unix.Errno) {
	if f.became == 0 { // an image from the daemon has its addresses
		if e := f.address(base, f.header(base, cell.ImageSize)); e != 0 {
			return cell.StepImage, e
		}
	}
	if sealed := f.header(base, cell.ImageSealed); sealed != f.fds-runFDs-f.became {
		return cell.StepProtocol, unix.EBADF
	}
	if e := errnoOf(f.sys(unix.SYS_DUP3, imageFD, rulesFD, unix.O_CLOEXEC, 0, 0, 0)); e != 0 {
		return cell.StepDescriptors, e
	}
	if step, e := f.streams(base); e != 0 {
		return step, e
	}
	if e := f.own(f.header(base, cell.ImageOwn)); e != 0 {
		return cell.StepLandlock, e
	}
	if nice := f.header(base, cell.ImageNice); nice != 0 {
		if e := errnoOf(f.sys(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, nice, 0, 0, 0)); e != 0 {
			return cell.StepNice, e
		}
	}
	if e := f.limits(base); e != 0 { // before the change of user: raising a hard limit may need root
		return cell.StepRlimit, e
	}
	if f.became == 0 {
		if step, e := f.settleAs(base); e != 0 {
			return step, e
		}
	}
	if e := f.enter(base + f.header(base, cell.ImageCwd)); e != 0 {
		return cell.StepCwd, e
	}
	if e := errnoOf(f.sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&f.none)), 0, setSize, 0, 0)); e != 0 {
		return cell.StepSignals, e
	}
	// It holds since the supervisor's hand set it; setting it again makes this step stand by itself.
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)); e != 0 {
		return cell.StepLandlock, e
	}
	return cell.StepLandlock, errnoOf(f.sys(unix.SYS_LANDLOCK_RESTRICT_SELF, rulesFD, 0, 0, 0, 0, 0))
}

// own allows what /proc has about the process itself.
//
//go:nosplit
//go:norace
func (f *process) own(access uintptr) unix.Errno {
	if access == 0 {
		return 0
	}
	at := unix.AT_FDCWD
	fd := f.sys(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&ownPath[0])), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if bad(fd) {
		return errnoOf(fd)
	}
	f.allow.Allowed_access, f.allow.Parent_fd = uint64(access), int32(fd)
	return errnoOf(f.sys(unix.SYS_LANDLOCK_ADD_RULE, rulesFD, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&f.allow)), 0, 0, 0))
}

var ownPath = []byte(cell.OwnProcess + "\x00")

// settleAs makes the process the program's user, without a capability and dying with its supervisor.
//
//go:nosplit
//go:norace
func (f *process) settleAs(base uintptr) (step byte, e unix.Errno) {
	if e := f.identity(base); e != 0 {
		return cell.StepUID, e
	}
	// a change of user leaves some sets, and all of them where uid 0 stays
	if e := errnoOf(f.sys(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&f.capHeader)), uintptr(unsafe.Pointer(&f.caps)), 0, 0, 0, 0)); e != 0 {
		return cell.StepCapabilities, e
	}
	// a change of user has cleared the one, and a setting of the system decides about the other
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)); e != 0 {
		return cell.StepUID, e
	}
	return cell.StepParent, f.follow()
}

// identity makes the process the workspace's owner, without any group but the given one.
//
//go:nosplit
//go:norace
func (f *process) identity(base uintptr) unix.Errno {
	if f.header(base, cell.ImageBecomes) == 0 {
		return 0
	}
	if e := errnoOf(f.sys(unix.SYS_SETGROUPS, 0, 0, 0, 0, 0, 0)); e != 0 {
		return e
	}
	gid, uid := f.header(base, cell.ImageGID), f.header(base, cell.ImageUID)
	if e := errnoOf(f.sys(unix.SYS_SETRESGID, gid, gid, gid, 0, 0, 0)); e != 0 {
		return e
	}
	return errnoOf(f.sys(unix.SYS_SETRESUID, uid, uid, uid, 0, 0, 0))
}

// enter changes to the working directory, as the owner, by a path without links: somebody who put one there since the
// plan was made must not choose the place.
//
//go:nosplit
//go:norace
func (f *process) enter(path uintptr) unix.Errno {
	if f.became != 0 {
		return f.directory(path) // its filter knows no openat2
	}
	at := unix.AT_FDCWD
	fd := f.sys(unix.SYS_OPENAT2, uintptr(at), path, uintptr(unsafe.Pointer(&f.how)), unsafe.Sizeof(f.how), 0, 0)
	if bad(fd) {
		return errnoOf(fd)
	}
	return errnoOf(f.sys(unix.SYS_FCHDIR, fd, 0, 0, 0, 0, 0))
}

// filtered puts the filter of an image over the process, for good.
//
//go:nosplit
//go:norace
func (f *process) filtered(base uintptr) (step byte, e unix.Errno) {
	// It holds since the supervisor's hand set it; setting it again makes this step stand by itself.
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)); e != 0 {
		return cell.StepNoNewPrivs, e
	}
	*wordAt(uintptr(unsafe.Pointer(&f.prog.Filter))) = base + f.header(base, cell.ImageFilter)
	f.prog.Len = uint16(f.header(base, cell.ImageFilterN))
	filter := uintptr(unsafe.Pointer(&f.prog))
	return cell.StepSeccomp, errnoOf(f.sys(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, filter, 0, 0, 0))
}

// execute installs the filter, unless it holds already, and executes the program; it returns only on failure.
//
//go:nosplit
//go:norace
func (f *process) execute(base uintptr) (step byte, e unix.Errno) {
	if f.became == 0 {
		if step, e := f.filtered(base); e != 0 {
			return step, e
		}
	}
	path, argv, envv := base+f.header(base, cell.ImagePath), base+f.header(base, cell.ImageArgv), base+f.header(base, cell.ImageEnv)
	if f.header(base, cell.ImageSealed) == 0 {
		return cell.StepExec, errnoOf(f.sys(unix.SYS_EXECVE, path, argv, envv, 0, 0, 0))
	}
	const how = unix.AT_EMPTY_PATH
	return cell.StepExec, errnoOf(f.sys(unix.SYS_EXECVEAT, givenFD+f.became, uintptr(unsafe.Pointer(&f.none)), argv, envv, how, 0))
}
