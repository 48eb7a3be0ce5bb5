package layered

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

// Tree is a directory, with changes where there are any. It is for one goroutine at a time, and for as long as its
// descriptors are open.
type Tree struct {
	lower, upper int
	changes      map[string]bool // whether there is something at changed paths; nil: nothing is changed
	kids         map[string][]string
}

// Plain is a directory as it is.
func Plain(dir int) *Tree { return &Tree{lower: dir} }

// With is a directory as it would be with changes, whose paths are below it and whose content is in upper. What is not
// there any more is among them, with all that was in it.
func With(lower, upper int, changes map[string]bool) *Tree {
	t := &Tree{lower: lower, upper: upper, changes: changes, kids: map[string][]string{}}
	for p := range changes {
		if dir, name := path.Split(p); name != "" {
			dir = strings.TrimSuffix(dir, "/")
			t.kids[dir] = append(t.kids[dir], name)
		}
	}
	return t
}

// mostFollowed bounds the links on the way to one file, as the kernel does, and mostPath the way.
const (
	mostFollowed = 40
	mostPath     = 4_096
)

// errOut: a link leads out of the workspace, or in circles.
var errOut = errors.New("layered: a link leads out of the workspace")

// place finds where a path really is, in which layer, and what is there.
func (t *Tree) place(name string) (top int, real string, st *unix.Stat_t, err error) {
	rest, at, links := name, "", 0
	for {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "..":
			if at == "" {
				return 0, "", nil, errOut
			}
			at = beneath.Parent(at)
		case "", ".":
		default:
			at = beneath.Join(at, part)
		}
		if top, st, err = t.look(at); err != nil {
			return 0, "", nil, err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			to, err := beneath.Target(top, at)
			if links++; err != nil || links > mostFollowed || strings.HasPrefix(to, "/") || len(to)+len(rest) > mostPath {
				return 0, "", nil, errors.Join(errOut, err)
			}
			at, rest = beneath.Parent(at), to+"/"+rest
			continue
		}
		if rest == "" {
			return top, at, st, nil
		}
		if !beneath.IsDir(st) {
			return 0, "", nil, unix.ENOTDIR
		}
	}
}

// look looks at a path on whose way no link is.
func (t *Tree) look(at string) (top int, st *unix.Stat_t, err error) {
	top = t.lower
	if there, changed := t.changes[at]; changed {
		if top = t.upper; !there {
			return 0, nil, unix.ENOENT
		}
	}
	if at == "" {
		st = new(unix.Stat_t)
		return top, st, unix.Fstatat(top, "", st, unix.AT_EMPTY_PATH)
	}
	st, missing, err := beneath.LookBelow(top, at)
	if missing {
		err = unix.ENOENT
	}
	return top, st, err
}

// Open opens a regular file for reading.
func (t *Tree) Open(name string) (*os.File, error) {
	top, real, st, err := t.place(name)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f, _, err := beneath.OpenRegular(top, real)
	return f, err
}

// ReadDir lists a directory: one name more than most, where there are more.
func (t *Tree) ReadDir(name string, most int) ([]fs.DirEntry, error) {
	_, real, st, err := t.place(name)
	if err == nil && !beneath.IsDir(st) {
		err = unix.ENOTDIR
	}
	var out []fs.DirEntry
	if err == nil {
		out, err = t.names(real, most)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if t.changes == nil {
		return out, nil
	}
	out = slices.DeleteFunc(out, func(e fs.DirEntry) bool {
		_, changed := t.changes[beneath.Join(real, e.Name())]
		return changed
	})
	for _, n := range t.kids[real] {
		p := beneath.Join(real, n)
		if !t.changes[p] || len(out) > most {
			continue
		}
		_, st, err := t.look(p)
		if err != nil {
			return nil, &fs.PathError{Op: "stat", Path: p, Err: err}
		}
		out = append(out, entryOf{n, st.Mode & unix.S_IFMT})
	}
	return out, nil
}

// names are those of a directory below; none where there is no such directory.
func (t *Tree) names(real string, most int) ([]fs.DirEntry, error) {
	fd, err := beneath.OpenIn(t.lower, real, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if _, changed := t.changes[real]; changed && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) {
			return nil, nil
		}
		return nil, err
	}
	f := os.NewFile(uintptr(fd), real)
	defer func() { _ = f.Close() }() // it was only read
	out, err := f.ReadDir(most + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

// entryOf is a name that a run made, as an entry of its directory.
type entryOf struct {
	name string
	kind uint32
}

// Name implements fs.DirEntry.
func (e entryOf) Name() string { return e.name }

// IsDir implements fs.DirEntry.
func (e entryOf) IsDir() bool { return e.kind == unix.S_IFDIR }

// Type implements fs.DirEntry.
func (e entryOf) Type() fs.FileMode {
	switch e.kind {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	}
	return fs.ModeIrregular
}

// Info implements fs.DirEntry. Nobody needs it.
func (e entryOf) Info() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }
