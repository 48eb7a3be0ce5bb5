//go:build unix

package notify

// shell is what runs a line, and the word before it.
func shell() (program, flag string) { return "/bin/sh", "-c" }
