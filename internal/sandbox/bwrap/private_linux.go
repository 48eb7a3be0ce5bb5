package bwrap

import (
	"fmt"
	"slices"

	"palyra/internal/cell"
	"palyra/internal/subpath"
)

const (
	// A file system in memory may have one name for so many of its bytes: each name takes about a
	// kilobyte of the kernel's memory.
	roomNameBytes = 8 << 10
	roomFewNames  = 512 // however small the file system
)

// private makes the room's own directories. The cell makes ReadOnlyProc read-only, once it has set its limits
// there. Writable places are only directories at first, which become read-only with their parents: the cell mounts
// file systems over them, because bubblewrap cannot bound the number of their names.
func (a *arguments) private(r Room) {
	a.add("--proc", "/proc", "--perms", "0755", "--tmpfs", "/dev")
	for _, name := range devices {
		a.add("--dev-bind", "/dev/"+name, "/dev/"+name)
	}
	a.add("--dev-bind-try", "/dev/tty", "/dev/tty", "--perms", "0755", "--dir", "/dev/pts", "--symlink", "pts/ptmx", "/dev/ptmx")
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		a.add("--symlink", fmt.Sprintf("/proc/self/fd/%d", i), "/dev/"+name)
	}
	a.add("--symlink", "/proc/self/fd", "/dev/fd")
	for _, p := range r.Private() {
		a.add("--perms", fmt.Sprintf("%04o", p.Mode), "--dir", p.Path)
	}
}

// devices are those that every program may use. Bubblewrap's own /dev would come with terminals, for which it makes
// another user namespace; rooms have terminals of their own.
var devices = []string{"full", "null", "random", "urandom", "zero"}

// Private lists what the cell mounts over the writable places of a room.
func (r Room) Private() []cell.Private {
	out := []cell.Private{
		{Path: cell.RoomShm, Mode: 0o1777, Bytes: r.Tmp},
		{Path: cell.RoomTmp, Mode: 0o1777, Bytes: r.Tmp},
		{Path: cell.RoomRun, Mode: 0o755, Bytes: roomRunBytes},
		{Path: cell.RoomHome, Mode: 0o700, Bytes: r.Tmp},
	}
	for i := range out {
		p := &out[i]
		p.Inodes = max(roomFewNames, p.Bytes/roomNameBytes)
		for _, target := range r.targets() {
			if subpath.Within(p.Path, target) {
				p.Keep = append(p.Keep, target)
			}
		}
	}
	return out
}

// ReadOnlyProc lists the room's own paths that the cell makes read-only: /proc/sys can be read and
// not set, even by a root that is mapped to another user.
func ReadOnlyProc() []string { return []string{"/proc/sys"} }

// inPrivate reports whether a path lies in a place that the cell makes.
func inPrivate(path string) bool {
	return slices.ContainsFunc(Writable(), func(p string) bool { return subpath.Within(p, path) })
}

// targets returns the paths of the room that its plan names, each once.
func (r Room) targets() (all []string) {
	if r.Workspace != "" {
		all = append(all, r.Workspace)
	}
	if r.Repository.Path != "" {
		all = append(all, r.Repository.Path)
	}
	for _, m := range r.Mounts {
		all = append(all, m.Target)
	}
	for _, f := range r.Files {
		all = append(all, f.Target)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
