//go:build linux && !amd64

package first

const cribs = false

// divide is for machines with cribs.
func divide(*process, uintptr, uintptr) uintptr { return ^uintptr(0) }
