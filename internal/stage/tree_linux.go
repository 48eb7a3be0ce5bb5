package stage

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

// treeView is the workspace as it is, or as it would be with the changes of a run.
type treeView struct {
	ws, upper int
	changes   map[string]State // what is at changed paths; nil: nothing is changed
	kids      map[string][]string
}

func viewOf(ws, upper int, all []Change) *treeView {
	t := &treeView{ws: ws, upper: upper, changes: make(map[string]State, len(all)), kids: map[string][]string{}}
	for _, c := range all {
		t.changes[c.Path] = c.Now
		if dir, name := path.Split(c.Path); name != "" {
			dir = strings.TrimSuffix(dir, "/")
			t.kids[dir] = append(t.kids[dir], name)
		}
	}
	return t
}

// mostFollowed bounds the links on the way to one file, as the kernel does.
const mostFollowed = 40

// errOut: a link leads out of the workspace, or in circles.
var errOut = errors.New("stage: a link leads out of the workspace")

// place finds where a path really is, in which layer, and what is there.
func (t *treeView) place(name string) (top int, real string, st *unix.Stat_t, err error) {
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
			to, err := target(top, at)
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
func (t *treeView) look(at string) (top int, st *unix.Stat_t, err error) {
	top = t.ws
	if now, changed := t.changes[at]; changed {
		if top = t.upper; now.Kind == Nothing {
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

// Open implements Tree.
func (t *treeView) Open(name string) (*os.File, error) {
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

// ReadDir implements Tree.
func (t *treeView) ReadDir(name string, most int) ([]fs.DirEntry, error) {
	_, real, st, err := t.place(name)
	if err == nil && !beneath.IsDir(st) {
		err = unix.ENOTDIR
	}
	var out []fs.DirEntry
	if err == nil {
		out, err = t.lower(real, most)
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
		if s := t.changes[beneath.Join(real, n)]; s.Kind != Nothing && len(out) <= most {
			out = append(out, entryOf{n, s.Kind})
		}
	}
	return out, nil
}

// lower are the names of a directory of the workspace; none where it has no such directory.
func (t *treeView) lower(real string, most int) ([]fs.DirEntry, error) {
	fd, err := beneath.OpenIn(t.ws, real, unix.O_RDONLY|unix.O_DIRECTORY)
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
	kind Kind
}

// Name implements fs.DirEntry.
func (e entryOf) Name() string { return e.name }

// IsDir implements fs.DirEntry.
func (e entryOf) IsDir() bool { return e.kind == Directory }

// Type implements fs.DirEntry.
func (e entryOf) Type() fs.FileMode {
	switch e.kind {
	case File:
		return 0
	case Directory:
		return fs.ModeDir
	case Link:
		return fs.ModeSymlink
	}
	return fs.ModeIrregular
}

// Info implements fs.DirEntry. Nobody needs it.
func (e entryOf) Info() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }
