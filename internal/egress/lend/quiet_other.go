//go:build !linux && !darwin

package lend

// isEmpty reports whether a socket has neither bytes nor an end to be read; nobody knows here, so none is used again.
func isEmpty(uintptr) bool { return false }
