//go:build !unix

package cli

// nonblock does not exist here: a read of the terminal ends with the process.
const nonblock = 0
