package main

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// cover is a file to be laid over a path of a room.
type cover struct {
	path  string
	below string // a mount in which it lies; empty: the directories on the way stay as they are
	mode  uint32
	inert uint64 // attributes of its mount
}

// coverOf is the cover of an order. Scripts find themselves where they are expected; data is not executed.
func coverOf(o cell.Order) cover {
	c := cover{path: o.Path, below: o.Below, mode: 0o555, inert: readOnly}
	if o.Data {
		c.mode, c.inert = 0o444, inert
	}
	return c
}

// lay lays a copy of content over the path. The copy is in a file system that only this thread could ever write to, and
// cannot once it is in place.
func (c cover) lay(content int) error {
	fs, err := scratch()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fs) }()
	file, err := c.copied(content, fs)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(file) }()
	if err := c.pin(); err != nil {
		return err
	}
	return withPath(unix.AT_FDCWD, c.path, unix.RESOLVE_NO_SYMLINKS, func(target int, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return unix.EINVAL
		}
		return mountOver(file, target, c.inert)
	})
}

// pin lays every directory between a mount and the path over itself, as it is done for sealed paths: with the directory
// the path could be moved to where nothing is laid over it.
func (c cover) pin() error {
	if c.below == "" {
		return nil
	}
	rel, in := strings.CutPrefix(path.Dir(c.path), c.below)
	if !in || rel != "" && rel[0] != '/' || path.Clean(c.path) != c.path {
		return unix.EINVAL
	}
	at := c.below
	for _, name := range strings.Split(rel, "/") { // the first is empty: the mount itself
		at = path.Join(at, name)
		if err := withPath(unix.AT_FDCWD, at, unix.RESOLVE_NO_SYMLINKS, func(dir int, _ *unix.Stat_t) error {
			var is unix.Statx_t
			err := unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &is)
			switch {
			case err != nil || is.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0:
				return err
			case at == c.below: // then it could be moved as a whole
				return unix.EINVAL
			}
			return mountOver(dir, dir, 0)
		}); err != nil {
			return err
		}
	}
	return nil
}

// copied makes a copy of content in fs and returns it, opened for reference only: no descriptor open for writing may
// remain when it is executed.
func (c cover) copied(content, fs int) (int, error) {
	const name = "copy"
	var st unix.Stat_t
	if err := unix.Fstat(content, &st); err != nil {
		return -1, err
	}
	to, err := unix.Openat(fs, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, c.mode)
	if err != nil {
		return -1, err
	}
	var from int64
	for from < st.Size {
		n, err := unix.Sendfile(to, content, &from, int(min(st.Size-from, 1<<30)))
		if err == nil && n == 0 {
			err = unix.EIO
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return -1, errors.Join(err, unix.Close(to))
		}
	}
	if err := unix.Close(to); err != nil {
		return -1, err
	}
	return unix.Openat(fs, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
