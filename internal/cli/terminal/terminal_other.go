//go:build !unix

package terminal

// nonblock does not exist here: a read of the terminal ends with the process.
const nonblock = 0
