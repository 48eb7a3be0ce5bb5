package main

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
)

// builder furnishes a room, in whose namespaces of files and network it works. The first step that fails ends it: a
// room that lacks a part must not be used.
type builder struct {
	room  *cell.Room
	extra handed

	lower   int // the workspace beneath its stage; -1: no stage
	netlink int
	doors   []*os.File
	copies  []*os.File // of the mount of the workspace
	places  []int      // its file systems in memory
	rules   ruleset.Set
}

// build does it all, on the maker's thread.
func (b *builder) build() failure {
	for _, step := range []func() failure{b.sockets, b.connect, b.paths, b.landlock} {
		if f := step(); f.step != "" {
			return f
		}
	}
	return failure{}
}

// discard closes what was made for a room that will not be.
func (b *builder) discard() {
	cell.CloseAll(b.doors)
	cell.CloseAll(b.copies)
	for _, fd := range b.places {
		_ = unix.Close(fd)
	}
	b.rules.Forget()
}

// paths stages the workspace and furnishes, hides and seals paths of the room.
func (b *builder) paths() failure {
	if f := b.stage(); f.step != "" {
		return f
	}
	if text, err := hide(b.room.Hide); err != nil {
		return failed("hide", text, err)
	}
	if err := terminals(); err != nil {
		return failed("private", terminalsPath, err)
	}
	places, text, err := furnish(b.room.Private)
	if err != nil {
		return failed("private", text, err)
	}
	b.places = places
	if f := b.placeUnix(); f.step != "" {
		return f
	}
	if text, err := fix(b.room.ReadOnly); err != nil {
		return failed("hide", text, err)
	}
	if err := b.hold(); err != nil {
		return failed("hide", b.room.Workspace, err)
	}
	return b.seal()
}

// hold makes a held workspace read-only, and lays over it what stays open, as it was.
func (b *builder) hold() error {
	if !b.room.Held || slices.Contains(b.room.Open, b.room.Workspace) {
		return nil
	}
	trees := make([]int, len(b.room.Open)) // 0: it is not there
	defer func() {
		for _, tree := range trees {
			if tree > 0 {
				_ = unix.Close(tree)
			}
		}
	}()
	for i, p := range b.room.Open {
		_, err := eachPath([]string{p}, func(fd int, _ *unix.Stat_t) (err error) {
			trees[i], err = clone(fd, 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	err := withPath(unix.AT_FDCWD, b.room.Workspace, unix.RESOLVE_NO_SYMLINKS, func(fd int, _ *unix.Stat_t) error {
		return mountOver(fd, fd, readOnly)
	})
	for i, p := range b.room.Open {
		if err == nil && trees[i] > 0 {
			err = withPath(unix.AT_FDCWD, p, unix.RESOLVE_NO_SYMLINKS, func(fd int, _ *unix.Stat_t) error { return attach(trees[i], fd) })
		}
	}
	return err
}

// landlock makes the ruleset of what will run: its rules stand for the room's own files.
func (b *builder) landlock() failure {
	return complete(&b.rules, &b.room.Landlock)
}

// seal lays every sealed path, and every directory on the way to one, over itself. A mount point can be neither
// renamed nor removed nor replaced, and a read-only one not be changed either.
func (b *builder) seal() failure {
	defer b.unstage()
	if len(b.room.Seals) == 0 {
		return failure{}
	}
	var workspace unix.Statx_t
	dir, err := unix.Openat2(unix.AT_FDCWD, b.room.Workspace, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err == nil {
		defer func() { _ = unix.Close(dir) }()
		err = unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &workspace)
	}
	if err == nil && workspace.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		err = unix.EINVAL // then it could be moved as a whole
	}
	if err != nil {
		return failed("seal", b.room.Workspace, err)
	}
	for i := range b.room.Seals {
		s := &b.room.Seals[i]
		if err := b.sealOne(dir, s); err != nil {
			return failed("seal", s.Path, err)
		}
	}
	return failure{}
}

// sealOne seals a path that is still what was found there. On a stage it compares the file below
// the stage: the overlay has inode numbers of its own.
func (b *builder) sealOne(workspace int, s *cell.Seal) error {
	staged := b.lower >= 0
	if staged {
		if err := withPath(b.lower, s.Path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS, func(_ int, st *unix.Stat_t) error {
			if st.Dev != s.Dev || st.Ino != s.Ino {
				return unix.ESTALE
			}
			return nil
		}); err != nil {
			return asStale(err)
		}
	}
	err := withPath(workspace, s.Path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS, func(fd int, st *unix.Stat_t) error {
		if !staged && (st.Dev != s.Dev || st.Ino != s.Ino) {
			return unix.ESTALE
		}
		attributes := uint64(0)
		if s.ReadOnly {
			attributes = readOnly
		}
		return mountOver(fd, fd, attributes)
	})
	return asStale(err)
}

// asStale turns a missing path into ESTALE: it is no longer what was found there.
func asStale(err error) error {
	for _, changed := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV} {
		if errors.Is(err, changed) {
			return unix.ESTALE
		}
	}
	return err
}
