package bwrap

import (
	"errors"
	"os"
	"slices"
	"strings"

	"palyra/internal/subpath"
)

// hide adds the paths in items that no run may see, as paths of the room.
func hide(items []item, hidden []string) []item {
	out := slices.Clip(items) // many rooms share them
	for _, i := range items {
		if i.kind != itemBind {
			continue
		}
		for _, h := range hidden {
			if !subpath.Within(i.text, h) {
				continue
			}
			kind := itemHideFile
			if st, err := os.Lstat(h); err != nil || st.IsDir() {
				kind = itemHideDir
			}
			out = append(out, item{kind: kind, target: i.target + strings.TrimPrefix(h, i.text)})
		}
	}
	return out
}

// gone reports whether there is nothing to hide at a path any more.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// hides reports whether an item covers something.
func (i item) hides() bool { return i.kind == itemHideDir || i.kind == itemHideFile }

// replaced reports whether the plan itself puts something in the place that an item hides.
func (r Room) replaced(i item) bool {
	return slices.ContainsFunc(r.targets(), func(t string) bool { return subpath.Within(t, i.target) })
}

// cover covers hidden paths with something empty. It comes before the plan's mounts, which may lie below: they are
// then put into the empty directory. A file becomes a device, which no file system of the room lets anybody open.
func (a *arguments) cover(r Room, items []item) {
	for _, i := range items {
		switch {
		case !i.hides() || r.replaced(i):
		case i.kind == itemHideDir:
			a.add("--perms", "0555", "--tmpfs", i.target)
		default:
			a.add("--ro-bind", os.DevNull, i.target)
		}
	}
}

// fasten makes the empty directories read-only, once everything is in them.
func (a *arguments) fasten(r Room, items []item) {
	for _, i := range items {
		if i.kind == itemHideDir && !r.replaced(i) {
			a.add("--remount-ro", i.target)
		}
	}
}
