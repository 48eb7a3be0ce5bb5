package bwrap

import (
	"fmt"
	"slices"

	"palyra/internal/cell"
	"palyra/internal/subpath"
)

const (
	// A file system in memory has a name for so many of its bytes: each takes about
	// a kilobyte of the kernel's memory.
	roomNameBytes = 8 << 10
	roomFewNames  = 512 // however small it is
)

// Private makes the parts of the room that are its own. The cell makes
// ReadOnlyProc read-only, once it has set what it has to there. What can be written to is only
// directories here, which become read-only with what they are in: the cell lays
// file systems over them, as bubblewrap cannot bound how many names one holds.
func (a *arguments) private(r Room) {
	a.add("--proc", "/proc", "--dev", "/dev")
	for _, p := range r.Private() {
		a.add("--perms", fmt.Sprintf("%04o", p.Mode), "--dir", p.Path)
	}
}

// Private is what the cell lays over the places of a room that can be written to.
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

// ReadOnlyProc is what of the room's own the cell makes read-only: /proc/sys can be read
// and not set, also by a root who is mapped to somebody else.
func ReadOnlyProc() []string { return []string{"/proc/sys"} }

// inPrivate reports whether a path lies in a place that the cell makes.
func inPrivate(path string) bool {
	return slices.ContainsFunc(Writable(), func(p string) bool { return subpath.Within(p, path) })
}

// targets are where the room shows something that its plan names, each once.
func (r Room) targets() (all []string) {
	if r.Workspace != "" {
		all = append(all, r.Workspace)
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
