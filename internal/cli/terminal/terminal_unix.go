//go:build unix

package terminal

import "syscall"

// nonblock lets a read of the terminal end when its time is up.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
