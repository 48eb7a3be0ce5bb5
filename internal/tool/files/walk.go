//go:build unix

package files

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"palyra"
)

const (
	maxDepth   = 128     // of directories below the start
	maxEntries = 200_000 // of one directory
	chunk      = 1024
)

// errEnough stops a walk early.
var errEnough = errors.New("files: enough")

// dirEntry is one entry of a walk: a name in an open directory.
type dirEntry struct {
	rel  string // path from the workspace
	dir  int    // descriptor of the directory it is in
	name string
	st   unix.Stat_t
}

// walker goes through a directory in order of names, on descriptors, through no link. It counts and
// skips directories that it may not open.
type walker struct {
	ctx        context.Context
	deep       bool
	visit      func(dirEntry) error
	unreadable int
	held       int // bytes of names of the directories on its present path
}

func (w *walker) walk(r *root, rel string) error {
	d, err := r.dir(rel)
	if err != nil {
		return fail("list", rel, err)
	}
	return w.dir(d, rel, 0)
}

// dir visits the entries of d, and of the directories in it, and closes d.
func (w *walker) dir(d *os.File, rel string, depth int) error {
	defer func() { _ = d.Close() }()
	names, err := w.names(d, rel)
	if err != nil {
		return err
	}
	held := 0
	for _, name := range names {
		held += len(name) + bytesOfLine
	}
	if w.held+held > bytesOfNames {
		w.unreadable++
		return nil
	}
	w.held += held
	defer func() { w.held -= held }()
	fd := int(d.Fd())
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		e := dirEntry{rel: path.Join(rel, name), dir: fd, name: name}
		if unix.Fstatat(fd, name, &e.st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // removed since it was listed
		}
		if err := w.visit(e); err != nil {
			return err
		}
		if !w.deep || e.st.Mode&unix.S_IFMT != unix.S_IFDIR || name == ".git" {
			continue
		}
		if err := w.descend(e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) descend(e dirEntry, depth int) error {
	fd, err := openat(e.dir, e.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil || depth >= maxDepth {
		if err == nil {
			_ = unix.Close(fd)
		}
		w.unreadable++
		return nil
	}
	return w.dir(os.NewFile(uintptr(fd), e.rel), e.rel, depth+1)
}

// names reads a directory's names in order, a bounded number of them.
func (w *walker) names(d *os.File, rel string) ([]string, error) {
	var all []string
	bytes := 0
	for {
		some, err := d.Readdirnames(chunk)
		for _, name := range some {
			bytes += len(name) + bytesOfLine
		}
		all = append(all, some...)
		if len(all) > maxEntries || bytes > bytesOfNames {
			return nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "%s has more than %d entries", quote(rel), maxEntries).
				WithRemedy("name a directory below it")
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.ctx.Err()
		}
		if err != nil {
			return nil, fail("list", rel, err)
		}
	}
	slices.Sort(all)
	return all, nil
}
