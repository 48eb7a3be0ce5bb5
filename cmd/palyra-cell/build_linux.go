package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// builder finishes a room. The first step that fails ends it: a room that lacks a part must not be used.
type builder struct {
	hand   *hand
	cell   *supervisor
	room   *cell.Room
	extra  handed
	spaces func() failure // waits for the namespaces

	lower    int // the workspace beneath its stage; -1: no stage
	netlink  int
	doors    []*os.File
	copies   []*os.File // of the mount of the workspace
	specimen *os.File
}

// begin makes the hand's own namespaces inside bubblewrap's, which belong to a user namespace above
// this one. That takes a while and is always the same, so it begins before the room is known.
// Nothing that is mounted outside from then on appears in the room.
func (b *builder) begin() {
	var err error
	wait := b.hand.begin(func() {
		if err = unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS); err == nil {
			err = unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
		}
	})
	b.spaces = func() failure { wait(); return failed("namespace", "", err) }
}

// build finishes the room in its own namespaces, and then gives up the capabilities that this takes. Only making
// processes, sockets and mounts needs the hand's thread; this thread uses the sockets while the hand mounts.
func (b *builder) build() ([]*os.File, failure) {
	if f := b.spaces(); f.step != "" {
		return nil, f
	}
	link, err := b.cell.newLink()
	if err != nil {
		return nil, failed("launcher", "", err)
	}
	var made, furnished failure
	sockets := make(chan struct{})
	wait := b.hand.begin(func() {
		if made = b.launcher(int(link.Fd())); made.step == "" {
			made = b.sockets()
		}
		close(sockets)
		if made.step == "" {
			furnished = b.paths()
		}
	})
	<-sockets
	_ = link.Close()
	if made.step == "" {
		made = b.connect()
	}
	if !b.cell.conn.Pending() { // otherwise the real Spec has come, and there is no time to lose
		b.specimen, _ = cell.WriteSpec(specimen())
	}
	wait()
	for _, f := range []failure{made, furnished} {
		if f.step != "" {
			cell.CloseAll(append(b.doors, b.copies...))
			return nil, f
		}
	}
	b.cell.watch.extra = b.extra
	return append(b.doors, b.copies...), b.disarm()
}

// launcher starts the launcher as early as it can be placed: it sees what the hand mounts later, too.
func (b *builder) launcher(link int) failure {
	var err error
	b.cell.launcher, err = b.hand.fork(link, nil, "palyra-cell", "launch", "room")
	return failed("launcher", "", err)
}

// paths stages the workspace and furnishes, hides and seals paths of the room.
func (b *builder) paths() failure {
	if f := b.stage(); f.step != "" {
		return f
	}
	places, text, err := furnish(b.room.Private)
	if err != nil {
		return failed("private", text, err)
	}
	b.cell.watch.places = places
	if f := b.placeUnix(); f.step != "" {
		return f
	}
	if text, err := hide(b.room.Hide); err != nil {
		return failed("hide", text, err)
	}
	if text, err := boundWatching(b.room.Watching); err != nil {
		return failed(cell.StepWatching, text, err)
	}
	if text, err := fix(b.room.ReadOnly); err != nil {
		return failed("hide", text, err)
	}
	return b.seal()
}

// rehearse reads a Spec while there is time, as supervisors do. The Spec was written before the
// filter, which allows no new memfd.
func (b *builder) rehearse() {
	if b.specimen != nil {
		_, _ = cell.ReadSpec(b.specimen)
		_ = b.specimen.Close()
	}
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
