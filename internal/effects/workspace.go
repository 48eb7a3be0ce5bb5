package effects

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// In is a workspace as it is. No link leads out of it. Done gives it back.
func In(dir string) (b Before, done func()) {
	b.Path = dir
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Links = func(func(name, to string)) bool { return false }
		return b, func() {}
	}
	b.Exists = func(name string) bool {
		_, err := root.Lstat(name)
		return err == nil
	}
	b.Link = func(name string) (string, bool) {
		to, err := root.Readlink(name)
		return to, err == nil
	}
	b.Links = func(each func(name, to string)) bool {
		l := links{each: each, left: mostEntries, until: time.Now().Add(linksWithin)}
		return l.look(root, "", mostDeep)
	}
	return b, func() { _ = root.Close() }
}

// Bounds of looking for links: entries of the workspace, directories in each other, and time.
const (
	mostEntries = 500_000
	mostDeep    = 200
	linksWithin = 30 * time.Second
)

// links looks for symbolic links.
type links struct {
	each  func(name, to string)
	left  int // entries
	until time.Time
}

// look looks through a directory, and reports whether it saw all that is there.
func (l *links) look(dir *os.Root, name string, deep int) bool {
	f, err := dir.Open(".")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	for {
		entries, err := f.ReadDir(1_000)
		if errors.Is(err, io.EOF) {
			return true
		}
		if l.left -= len(entries); err != nil || l.left < 0 || time.Now().After(l.until) {
			return false
		}
		for _, e := range entries {
			if !l.entry(dir, path.Join(name, e.Name()), e, deep-1) {
				return false
			}
		}
	}
}

// entry looks at one. What is gone, or another thing by now, is somebody else's doing.
func (l *links) entry(dir *os.Root, name string, e fs.DirEntry, deep int) bool {
	switch {
	case e.Type() == fs.ModeSymlink:
		if to, err := dir.Readlink(e.Name()); err == nil {
			l.each(name, to)
		}
	case e.IsDir() && deep == 0:
		return false
	case e.IsDir():
		sub, err := dir.OpenRoot(e.Name())
		if err != nil {
			return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && others(e)
		}
		defer func() { _ = sub.Close() }()
		return l.look(sub, name, deep)
	}
	return true
}

// others reports whether a directory that is shut to us is not shut to its owner: neither a run nor what a person got
// from others put it there.
func others(e fs.DirEntry) bool {
	fi, err := e.Info()
	return err == nil && fi.Mode()&0o500 == 0o500
}
