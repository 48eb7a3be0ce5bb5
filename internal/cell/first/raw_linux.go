package first

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first process of a room is a copy of its template, and a launcher one of its supervisor, that goes on without Go's
// runtime: the kernel copies one thread of a process, and the runtime's others are missing. What runs there
//
//   - is marked nosplit, so that it never asks for more stack; the linker adds up what it takes;
//   - makes system calls through raw alone, which tells no scheduler;
//   - allocates nothing, takes no lock, and stores no pointers: a collection may have been under way in the template,
//     and would want to hear of them.
//
// TestBare holds every function of these files to that, as far as it can be seen in their text.

// syscallArgs is a system call: its number, its arguments and its result.
type syscallArgs struct {
	nr     uintptr
	args   [6]uintptr
	result uintptr
}

// raw makes a system call.
func raw(c *syscallArgs)

// rawShared makes the system call by which a process begins that shares this one's memory, stack included, and
// that this one waits for until it executes a program or ends.
func rawShared(c *syscallArgs)

// bad reports whether the result of a system call is an error.
//
//go:nosplit
//go:norace
func bad(result uintptr) bool { return result > ^uintptr(4095) }

// errnoOf is the error of a system call; 0: none.
//
//go:nosplit
//go:norace
func errnoOf(result uintptr) unix.Errno {
	if !bad(result) {
		return 0
	}
	return unix.Errno(-result)
}

// wordAt is the word of memory at an address that the kernel gave.
//
//go:nosplit
//go:norace
//go:nocheckptr
func wordAt(address uintptr) *uintptr { return *(**uintptr)(unsafe.Pointer(&address)) }

// byteAt is the same for a byte.
//
//go:nosplit
//go:norace
//go:nocheckptr
func byteAt(address uintptr) *byte { return *(**byte)(unsafe.Pointer(&address)) }
