//go:build !unix

package terminal

// nonblock does not exist on this system: a read of the terminal ends with the process.
const nonblock = 0
