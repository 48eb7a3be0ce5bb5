//go:build unix && !linux

package files

import "golang.org/x/sys/unix"

// oPath opens a directory only to start from; plain reading is what there is.
const oPath = unix.O_RDONLY

func openBeneath(dir int, rel string, flags int) (int, error) { return walkOpen(dir, rel, flags) }

func openNoLinks(dir int, abs string, flags int) (int, error) { return walkOpen(dir, abs, flags) }

// sameMount cannot be told here.
func sameMount(int, int) bool { return true }

func confinement() string { return "openat_nofollow" }
