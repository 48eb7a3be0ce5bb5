package bwrap

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
)

// The kinds of places in a room, by what may be put into them.
const (
	placeOwn    = iota // private and empty: anything
	placeSystem        // the host's, read-only: only over existing paths, where only root can put a link in the way
	placeTaken         // nothing
	placeHidden        // the host's, covered: anything in it or in its place
)

// place is a used path of the room.
type place struct {
	path string
	kind int
	host string // of placeSystem: the directory of the host there
}

type placeList []place

// generatedEtc are the files of /etc that are made for the room.
var generatedEtc = strings.Fields(`/etc/passwd /etc/group /etc/nsswitch.conf /etc/hosts /etc/hostname /etc/resolv.conf /etc/mtab`)

// never are paths that would change every program of the room, or that the kernel or the cell fill.
var never = strings.Fields(`/etc/ld.so.preload /etc/ld.so.cache /proc /sys`)

func newPlaces(items []item) *placeList {
	var ps placeList
	for _, i := range items {
		p := place{path: i.target, kind: placeTaken}
		switch {
		case i.kind == itemBind:
			p.kind, p.host = placeSystem, i.text
		case i.hides():
			p.kind = placeHidden
		}
		ps = append(ps, p)
	}
	for _, path := range slices.Concat(generatedEtc, never) {
		ps = append(ps, place{path: path, kind: placeTaken})
	}
	ps = append(ps, place{path: "/dev", kind: placeTaken})
	for _, path := range Writable() {
		ps = append(ps, place{path: path, kind: placeOwn})
	}
	return &ps
}

// take puts a directory or a file at target, or returns why it cannot be there.
func (ps *placeList) take(target string, dir bool) (why string) {
	if why := badTarget(target); why != "" {
		return why
	}
	in := place{path: "/", kind: placeOwn}
	for _, p := range *ps {
		switch {
		case p.kind == placeHidden && subpath.Within(target, p.path): // the target covers it
		case p.path == target:
			return "something else is there already"
		case subpath.Within(target, p.path):
			return "it would cover " + Show(p.path)
		case subpath.Within(p.path, target) && len(p.path) >= len(in.path): // the innermost place counts, or the later of two
			in = p
		}
	}
	switch in.kind {
	case placeTaken:
		return "it lies in " + Show(in.path)
	case placeSystem:
		if !standsFirm(in.host, in.host+strings.TrimPrefix(target, in.path), dir) {
			return "it lies in " + Show(in.path) + " and is not there, or others than root could put a link in its way"
		}
	}
	*ps = append(*ps, place{path: target, kind: placeTaken})
	return ""
}

// standsFirm reports whether path, below top, is a directory or a file to mount over, and only root
// can change the way to it. bubblewrap goes there by path, and would create a missing one.
func standsFirm(top, path string, dir bool) bool {
	if loosePath(filepath.Dir(path), top) != "" {
		return false
	}
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return false
	}
	if dir {
		return st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG
}

// pathMost leaves space for bubblewrap's own prefix of a path.
const pathMost = unix.PathMax - 96

func badTarget(path string) string {
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path:
		return "it is not an absolute path in its shortest form"
	case path == "/":
		return "it is everything"
	case len(path) > pathMost:
		return "its path is longer than " + strconv.Itoa(pathMost) + " bytes"
	case strings.ContainsRune(path, 0):
		return "its path has a NUL byte"
	}
	return ""
}

// Show quotes a name with misleading characters.
func Show(name string) string {
	name = palyra.Clip(name, 256)
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
