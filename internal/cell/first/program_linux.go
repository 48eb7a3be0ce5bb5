package first

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// run starts the program of an image. Its process shares this one's memory until it executes it, so that nothing is
// copied, and what failed stands in that memory.
//
//go:nosplit
//go:norace
func (f *process) run() {
	base, e := f.image(imageFD)
	if e != 0 {
		f.say(lineFD, cell.StepImage, e)
		f.exit()
	}
	f.failed = cell.StepNone
	f.nr = unix.SYS_CLONE
	f.args[0] = uintptr(unix.SIGCHLD) | unix.CLONE_VM | unix.CLONE_VFORK
	f.args[1], f.args[2], f.args[3], f.args[4], f.args[5] = 0, 0, 0, 0, 0
	rawShared(&f.syscallArgs)
	if f.result == 0 {
		f.failed, f.errno = f.become(base)
		f.exit()
	}
	f.started(f.result)
}

// started draws the conclusion of run, in a frame of its own: the child used the other one.
//
//go:nosplit
//go:norace
//go:noinline
func (f *process) started(pid uintptr) {
	for fd := uintptr(imageFD); fd < imageFD+runFDs; fd++ {
		f.sys(unix.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
	}
	switch {
	case bad(pid):
		f.say(lineFD, cell.StepExec, errnoOf(pid))
		f.exit()
	case f.failed != cell.StepNone:
		f.say(lineFD, f.failed, f.errno)
		f.exit()
	}
	f.program = pid
	f.packet[0] = cell.LineStarted
	f.send(lineFD, 1)
	f.sys(unix.SYS_CLOSE, rulesFD, 0, 0, 0, 0, 0) // now that nobody waits: its rules are given back one by one
}

// image maps the image.
//
//go:nosplit
//go:norace
func (f *process) image(fd uintptr) (base uintptr, e unix.Errno) {
	if e := errnoOf(f.sys(unix.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&f.stat)), 0, 0, 0, 0)); e != 0 {
		return 0, e
	}
	const least = cell.ImageHeader * unsafe.Sizeof(base)
	size := uintptr(f.stat.Size)
	if size < least || size > cell.MaxSpec {
		return 0, unix.EINVAL
	}
	base = f.sys(unix.SYS_MMAP, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE, fd, 0)
	if bad(base) {
		return 0, errnoOf(base)
	}
	return base, f.address(base, size)
}

// address makes addresses of the offsets in an image.
//
//go:nosplit
//go:norace
func (f *process) address(base, size uintptr) unix.Errno {
	if f.header(base, cell.ImageVersion) != cell.Version || f.header(base, cell.ImageSize) != size {
		return unix.EINVAL
	}
	for _, list := range [2]uintptr{cell.ImageArgv, cell.ImageEnv} {
		for at := base + f.header(base, list); ; at += unsafe.Sizeof(at) {
			if at+unsafe.Sizeof(at) > base+size {
				return unix.EINVAL
			}
			if *wordAt(at) == 0 {
				break
			}
			*wordAt(at) += base
		}
	}
	return 0
}

// header is a word of the header of an image.
//
//go:nosplit
//go:norace
func (f *process) header(base, word uintptr) uintptr { return *wordAt(base + word*unsafe.Sizeof(word)) }

// become is the child between its birth and the program: it applies what the image says to itself, and executes it.
// It returns only on failure.
//
//go:nosplit
//go:norace
func (f *process) become(base uintptr) (step byte, e unix.Errno) {
	f.sys(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0) // fails only for who leads a group already
	if step, e := f.streams(base); e != 0 {
		return step, e
	}
	if nice := f.header(base, cell.ImageNice); nice != 0 {
		if e := errnoOf(f.sys(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, nice, 0, 0, 0)); e != 0 {
			return cell.StepNice, e
		}
	}
	if e := f.limits(base); e != 0 {
		return cell.StepRlimit, e
	}
	if e := f.directory(base + f.header(base, cell.ImageCwd)); e != 0 {
		return cell.StepCwd, e
	}
	if e := errnoOf(f.sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&f.none)), 0, setSize, 0, 0)); e != 0 {
		return cell.StepSignals, e
	}
	if e := errnoOf(f.sys(unix.SYS_LANDLOCK_RESTRICT_SELF, rulesFD, 0, 0, 0, 0, 0)); e != 0 {
		return cell.StepLandlock, e
	}
	return cell.StepExec, errnoOf(f.sys(unix.SYS_EXECVE, base+f.header(base, cell.ImagePath), base+f.header(base, cell.ImageArgv),
		base+f.header(base, cell.ImageEnv), 0, 0, 0))
}

// streams puts the program's descriptors at 0, 1 and 2, in blocking mode as programs expect, and has every other one
// closed by exec. Stdin becomes the controlling terminal, and may be opened again, where the image says so.
//
//go:nosplit
//go:norace
func (f *process) streams(base uintptr) (step byte, e unix.Errno) {
	for i := uintptr(0); i < 3; i++ {
		if e := errnoOf(f.sys(unix.SYS_DUP3, imageFD+1+i, i, 0, 0, 0, 0)); e != 0 {
			return cell.StepDescriptors, e
		}
		flags := f.sys(unix.SYS_FCNTL, i, unix.F_GETFL, 0, 0, 0, 0)
		if bad(flags) {
			return cell.StepDescriptors, errnoOf(flags)
		}
		if flags&unix.O_NONBLOCK != 0 {
			if e := errnoOf(f.sys(unix.SYS_FCNTL, i, unix.F_SETFL, flags&^unix.O_NONBLOCK, 0, 0, 0)); e != 0 {
				return cell.StepDescriptors, e
			}
		}
	}
	if e := errnoOf(f.sys(unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC, 0, 0, 0)); e != 0 {
		return cell.StepDescriptors, e
	}
	rights := f.header(base, cell.ImageTerminal)
	if rights == 0 {
		return cell.StepNone, 0
	}
	if e := errnoOf(f.sys(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0, 0, 0, 0)); e != 0 {
		return cell.StepTerminal, e
	}
	f.allow.Allowed_access, f.allow.Parent_fd = uint64(rights), 0
	return cell.StepLandlock, errnoOf(f.sys(unix.SYS_LANDLOCK_ADD_RULE, rulesFD, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&f.allow)), 0, 0, 0))
}

// limits sets the limits of one process.
//
//go:nosplit
//go:norace
func (f *process) limits(base uintptr) unix.Errno {
	const word = unsafe.Sizeof(base)
	at := base + f.header(base, cell.ImageRlimits)
	for n := f.header(base, cell.ImageRlimitN); n > 0; n-- {
		resource, soft, hard := *wordAt(at), wordAt(at+word), wordAt(at+2*word)
		e := errnoOf(f.sys(unix.SYS_PRLIMIT64, 0, resource, at+word, 0, 0, 0))
		if e == unix.EPERM && *hard > *soft {
			*hard = *soft
			e = errnoOf(f.sys(unix.SYS_PRLIMIT64, 0, resource, at+word, 0, 0, 0))
		}
		if e != 0 {
			return e
		}
		at += 3 * word
	}
	return 0
}

// directory changes to the working directory, part by part and through no link: somebody who put one there since the
// plan was made must not choose the place.
//
//go:nosplit
//go:norace
func (f *process) directory(path uintptr) unix.Errno {
	const how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at := unix.AT_FDCWD
	rest := *byteAt(path + 1)
	*byteAt(path + 1) = 0 // the root
	fd := f.sys(unix.SYS_OPENAT, uintptr(at), path, how, 0, 0, 0)
	*byteAt(path + 1) = rest
	for path++; !bad(fd) && *byteAt(path) != 0; {
		end := path
		for *byteAt(end) != 0 && *byteAt(end) != '/' {
			end++
		}
		last := *byteAt(end)
		*byteAt(end) = 0
		next := f.sys(unix.SYS_OPENAT, fd, path, how, 0, 0, 0)
		f.sys(unix.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
		if fd, path = next, end; last != 0 {
			path++
		}
	}
	if bad(fd) {
		return errnoOf(fd)
	}
	return errnoOf(f.sys(unix.SYS_FCHDIR, fd, 0, 0, 0, 0, 0))
}
