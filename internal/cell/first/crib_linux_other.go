//go:build linux && !amd64

package first

const cribs = false

// divide is for machines with cribs.
func divide(*process, uintptr, uintptr) uintptr { return ^uintptr(0) }

// divideInto is, too.
func divideInto(*process, uintptr) uintptr { return ^uintptr(0) }
