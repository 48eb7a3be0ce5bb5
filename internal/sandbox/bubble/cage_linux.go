package bubble

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cage"
	"palyra/internal/sandbox/cells"
	"palyra/internal/subpath"
)

// libraries are the directories of the system that programs read in order to work: none of those in which programs lie.
var libraries = strings.Fields(`
	/etc /proc /sys /dev /usr/lib /usr/lib32 /usr/lib64 /usr/libx32 /usr/share /usr/include /usr/local/lib /usr/local/share
	/usr/local/include /lib /lib32 /lib64 /libx32 /nix/store /gnu/store
`)

// loaders are where dynamic loaders lie, which the kernel starts for a program.
var loaders = strings.Fields(`/lib*/ld-*.so* /lib/*/ld-*.so* /usr/lib*/ld-*.so* /usr/lib/*/ld-*.so*`)

// caged adds the rules of a room in which a script of a skill is held to its cage: what a program needs in order to work is
// read, the programs of the cage are started, and of the workspace there is what the cage names. Nothing that can be written
// can be started.
func caged(w *want, add func(path string, access uint64, optional bool)) {
	const data = cells.ToWork &^ uint64(unix.LANDLOCK_ACCESS_FS_EXECUTE)
	c := w.cage
	for _, dir := range slices.Concat(libraries, c.Prefixes()) {
		if st, err := os.Lstat(dir); err == nil && st.IsDir() && !subpath.Within(dir, w.room.Workspace) { // a link leads to one of the others
			add(dir, cells.ToList, true)
		}
	}
	for _, f := range slices.Concat(c.Programs, loaderFiles()) {
		add(f, cells.ToRun&cells.OfFiles, true)
	}
	add(c.Pack.At, cells.ToList, false)
	for _, f := range c.Pack.Files {
		if f.Script {
			add(f.Path, cells.ToRun&cells.OfFiles, false)
		}
	}
	for _, m := range w.room.Mounts {
		add(m.Target, cells.ToList, false)
	}
	for _, f := range w.room.Files {
		add(f.Target, cells.ToList, false)
	}
	for _, p := range bwrap.Writable() {
		if !subpath.Within(p, w.room.Workspace) { // or else what is below it would be given, whatever is mounted there
			add(p, data, false)
		}
	}
	for _, p := range c.Read {
		add(p, cells.ToList, true)
	}
	for _, p := range c.Write {
		add(p, data, true)
	}
}

// loaderFiles are the dynamic loaders of this system.
func loaderFiles() (out []string) {
	for _, pattern := range loaders {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, f := range found {
			if real, err := filepath.EvalSymlinks(f); err == nil {
				out = append(out, real)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// unseen ends the watch over a script, and says what it needed; nil: it was none, or that is not known.
func (k *keeper) unseen() (needed []string) {
	if k.seen != nil {
		terms, known := k.seen.End()
		if needed = []string{}; known && k.layer == nil {
			needed = append(needed, terms...)
		} else {
			needed = append(needed, cage.Unknown)
		}
		k.seen = nil
	}
	if k.view != nil {
		_ = k.view.Close()
		k.view = nil
	}
	return needed
}
