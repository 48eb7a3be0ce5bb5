package first

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const cribs = true

// divide is where the two part: the child goes on by itself, on the stack below top. It finds nothing of its thread's
// variables, which would be hidden from it.
//
//go:nosplit
//go:norace
//go:noinline
func divide(f *process, flags, top uintptr) uintptr {
	f.nr = unix.SYS_CLONE
	f.args[0], f.args[1], f.args[2], f.args[3], f.args[4] = flags|unix.CLONE_SETTLS, top-64, 0, 0, top+64
	rawApart(&f.syscallArgs, f)
	return f.result
}

// divideInto is divide for a launcher, which can be born in a cgroup.
//
//go:nosplit
//go:norace
//go:noinline
func divideInto(f *process, top uintptr) uintptr {
	if f.clone.flags == 0 {
		return divide(f, uintptr(unix.SIGCHLD), top)
	}
	f.clone.flags |= unix.CLONE_SETTLS
	f.clone.tls, f.clone.stack, f.clone.stackSize = uint64(top+64), uint64(top-cribStack), cribStack-64
	f.nr = unix.SYS_CLONE3
	f.args[0], f.args[1] = uintptr(unsafe.Pointer(&f.clone)), unsafe.Sizeof(f.clone)
	rawApart(&f.syscallArgs, f)
	return f.result
}

// rawApart makes the system call by which a process begins that has a stack of its own, on which it is alive.
func rawApart(c *syscallArgs, f *process)
