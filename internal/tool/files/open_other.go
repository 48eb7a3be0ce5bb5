//go:build unix && !linux

package files

import "golang.org/x/sys/unix"

// oPath opens a directory for reference; these systems have no such mode, so for reading.
const oPath = unix.O_RDONLY

func openBeneath(dir int, rel string, flags int) (int, error) { return walkOpen(dir, rel, flags) }

func openNoLinks(dir int, abs string, flags int) (int, error) { return walkOpen(dir, abs, flags) }

// sameMount cannot be found out on these systems.
func sameMount(int, int) bool { return true }

func confinement() string { return "openat_nofollow" }
