package first

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// obey waits for the daemon and for children, and does what is to be done.
//
//go:nosplit
//go:norace
func (f *process) obey() {
	const forever = 0
	f.polled[0].Revents, f.polled[1].Revents = 0, 0
	f.sys(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&f.polled)), uintptr(len(f.polled)), forever, 0, setSize, 0)
	if f.polled[1].Revents != 0 {
		f.reap()
	}
	if f.polled[0].Revents == 0 {
		return
	}
	n := f.receive(lineFD, imageFD, runFDs)
	if n == 0 {
		f.exit() // the daemon is gone
	}
	switch word := f.packet[0]; {
	case word == cell.LineConfine && f.program == 0:
		f.confine()
	case word == cell.LineRun && f.program == 0 && f.fds == runFDs:
		f.run()
	case word == cell.LineSignal && n == 2 && f.fds == 0:
		if f.program > 1 && !f.exited {
			f.sys(unix.SYS_KILL, -f.program, uintptr(f.packet[1]), 0, 0, 0, 0)
		}
	case word == cell.LineTerm:
		f.blame(word)
		f.sys(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGTERM), 0, 0, 0, 0)
	case word == cell.LineKill || word == cell.LineLimit:
		f.blame(word)
		f.finish()
	default:
		f.say(lineFD, cell.StepProtocol, unix.EBADMSG)
		f.exit()
	}
}

// blame notes why the tree ends. The first reason counts.
//
//go:nosplit
//go:norace
func (f *process) blame(why byte) {
	if f.cause == 0 && !f.exited {
		f.cause = why
	}
}

// confine gives up what building took. From here on the process can do what the program will be
// able to, and no more.
//
//go:nosplit
//go:norace
func (f *process) confine() {
	step, e := byte(cell.StepCgroup), f.enclose()
	if e == 0 {
		step, e = f.disarm()
	}
	if e != 0 {
		f.say(lineFD, step, e)
		f.exit()
	}
	f.packet[0] = cell.LineConfined
	f.send(lineFD, 1)
}

var itself = []byte("0")

// enclose enters the cgroups whose files came with the order.
//
//go:nosplit
//go:norace
func (f *process) enclose() (e unix.Errno) {
	for i := uintptr(0); i < f.fds; i++ {
		r := f.sys(unix.SYS_WRITE, imageFD+i, uintptr(unsafe.Pointer(&itself[0])), 1, 0, 0, 0)
		f.sys(unix.SYS_CLOSE, imageFD+i, 0, 0, 0, 0, 0)
		if bad(r) {
			e = errnoOf(r)
		}
	}
	return e
}

// disarm makes its cgroups the root of what it can see of cgroups, takes every capability away, for good, and puts the
// filter over this process and all that come from it.
//
//go:nosplit
//go:norace
func (f *process) disarm() (step byte, e unix.Errno) {
	e = errnoOf(f.sys(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0, 0, 0, 0))
	if e != 0 && e != unix.EINVAL { // a kernel without
		return cell.StepCgroup, e
	}
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)); e != 0 {
		return cell.StepCapabilities, e
	}
	for c := uintptr(0); c <= f.lastCap; c++ {
		if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)); e != 0 {
			return cell.StepCapabilities, e
		}
	}
	if e := errnoOf(f.sys(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&f.capHeader)), uintptr(unsafe.Pointer(&f.caps)), 0, 0, 0, 0)); e != 0 {
		return cell.StepCapabilities, e
	}
	if e := errnoOf(f.sys(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)); e != 0 {
		return cell.StepNoNewPrivs, e
	}
	return cell.StepSeccomp, errnoOf(f.sys(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&f.prog)), 0, 0, 0))
}

// reap waits for children that ended. When the program has, everything else does.
//
//go:nosplit
//go:norace
func (f *process) reap() {
	f.sys(unix.SYS_READ, childFD, uintptr(unsafe.Pointer(&f.info)), uintptr(len(f.info)), 0, 0, 0)
	for f.wait(unix.WNOHANG) {
	}
	if f.exited {
		f.finish()
	}
}

// wait waits for one child; false: none has ended, or there is none.
//
//go:nosplit
//go:norace
func (f *process) wait(how uintptr) bool {
	pid := f.sys(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&f.none)), how, uintptr(unsafe.Pointer(&f.usage)), 0, 0)
	if bad(pid) || pid == 0 {
		return false
	}
	status := uint32(f.none[0])
	f.none[0] = 0
	f.micros += uint64(f.usage.Utime.Sec+f.usage.Stime.Sec)*1_000_000 + uint64(f.usage.Utime.Usec+f.usage.Stime.Usec)
	f.peak = max(f.peak, uint64(f.usage.Maxrss))
	const signalled = 0x7f
	switch {
	case pid == f.program:
		f.exited, f.status = true, status
	case f.exited && status&signalled == uint32(unix.SIGKILL):
		f.killed++
	}
	return true
}

// finish kills until nobody is left, tells the daemon and ends.
//
//go:nosplit
//go:norace
func (f *process) finish() {
	for {
		r := f.sys(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0, 0, 0, 0)
		if errnoOf(r) == unix.ESRCH && !f.wait(unix.WNOHANG) {
			break
		}
		f.wait(0)
	}
	if f.program == 0 { // nothing ran, and nobody waits for an account
		f.exit()
	}
	f.packet[0] = cell.LineEnded
	f.put32(1, f.status)
	f.put32(5, f.killed)
	f.put64(9, f.micros)
	f.put64(17, f.peak)
	f.packet[25] = f.cause
	f.send(lineFD, cell.LineEndedSize)
	f.exit()
}
