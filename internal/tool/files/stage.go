//go:build unix

package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/fault"
	"palyra/internal/tool"
)

// pendingChange is one change on its way to disk: the open directory, and a temporary
// name in it that holds the new content before the change and the old after.
type pendingChange struct {
	change
	disk disk
	dir  *os.File
	name string
	temp string
	ino  uint64 // inode of the new content
	put  bool   // the change is in place, to be kept or undone
}

// disk renames files. Tests turn off features that a file system may lack.
type disk struct{ noExchange, noReplaceFlag, noUnnamed bool }

// turns lets one change set per file system through at a time, so that of two calls with one base
// only the first succeeds.
type turns struct {
	mu    sync.Mutex
	byDev map[uint64]chan struct{}
}

func (t *turns) take(ctx context.Context, dev uint64) (release func(), err error) {
	t.mu.Lock()
	if t.byDev == nil {
		t.byDev = map[uint64]chan struct{}{}
	}
	turn := t.byDev[dev]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.byDev[dev] = turn
	}
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// apply makes the changes, all of them or none: new contents are written and flushed under temporary names first;
// then, in one short stretch, each is put in place and the file that it replaced is compared with the state that
// the plan bound; only then are the old contents removed. Any failure takes everything back.
//
// The temporary names carry the call's id, so that the remains of a crash can be recognised: they
// hold the new content before the swap and the old one after.
func (s *shared) apply(ctx context.Context, r *root, env tool.Env, changes []change, lose bool) (err error) {
	if env.Foreseen != nil {
		return s.foresee(ctx, r, env, changes, lose)
	}
	var stages []*pendingChange
	var made []string
	remembered := func(bool) {}
	defer func() {
		keep := err == nil
		for _, st := range slices.Backward(stages) {
			if bad := st.end(keep); bad != nil {
				err = bad // worse than the error before it
			}
			_ = st.dir.Close()
		}
		if !keep {
			r.unmake(made)
		}
		remembered(err == nil)
	}()
	for _, c := range changes {
		if c.unchanged() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		st, dirs, err := r.prepare(c, env.Call, s.disk)
		made = append(made, dirs...)
		if err != nil {
			return fail("write", c.path, err)
		}
		stages = append(stages, st)
		if err := st.fill(); err != nil {
			return fail("write", c.path, err)
		}
	}
	done, err := s.remember(ctx, r, env, stages, made, lose)
	if err != nil {
		return err
	}
	remembered = done
	return s.swap(ctx, r, stages, made)
}

// swap puts every change in place and checks that all is as planned.
func (s *shared) swap(ctx context.Context, r *root, stages []*pendingChange, made []string) error {
	var fs unix.Stat_t
	if err := unix.Fstat(r.fd, &fs); err != nil {
		return fmt.Errorf("files: swap: %w", err)
	}
	release, err := s.turn.take(ctx, uint64(fs.Dev))
	if err != nil {
		return err
	}
	defer release()
	s.reached("staged")
	fault.Point("file.replaced/lost")
	for _, st := range stages {
		if err := st.place(); err != nil {
			return fail("write", st.path, err)
		}
	}
	s.reached("placed")
	for _, st := range stages {
		if err := st.verify(r); err != nil {
			return fail("write", st.path, err)
		}
		if err := st.dir.Sync(); err != nil {
			return fail("write", st.path, err)
		}
	}
	for _, rel := range made {
		if err := r.sync(path.Dir(rel)); err != nil {
			return fail("write", rel, err)
		}
	}
	fault.Point("file.replaced/kept")
	return nil
}

func (r *root) sync(rel string) error {
	d, err := r.dir(rel)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prepare opens the change's directory, and makes it if it is missing.
func (r *root) prepare(c change, call palyra.CallID, d disk) (*pendingChange, []string, error) {
	made, err := r.makeDirs(path.Dir(c.path), dirMode(c.mode), call, d)
	if err != nil {
		return nil, made, err
	}
	dir, err := r.dir(path.Dir(c.path))
	if err != nil {
		return nil, made, err
	}
	return &pendingChange{change: c, disk: d, dir: dir, name: path.Base(c.path), temp: tempName(call)}, made, nil
}

func tempName(call palyra.CallID) string { return tempPrefix(call) + rand.Text() + tempSuffix }

// fill writes the new content under the temporary name, with its final mode and owner, and flushes it. Where the
// file system can, the file has no name until it is complete, so that a crash meanwhile leaves nothing.
func (st *pendingChange) fill() error {
	if st.remove {
		return nil
	}
	dir := int(st.dir.Fd())
	if fd, err := openUnnamed(dir); err == nil && !st.disk.noUnnamed {
		err := st.write(fd, func() error { return giveName(fd, dir, st.temp) })
		if !errors.Is(err, errNameless) {
			return err
		}
	} else if err == nil {
		_ = unix.Close(fd)
	}
	fd, err := openat(dir, st.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return st.write(fd, func() error { return nil })
}

// errNameless means that an unnamed file could not be given a name.
var errNameless = errors.New("files: no name can be given")

// write writes the content and sets mode and owner, gives the file its name and closes it.
func (st *pendingChange) write(fd int, name func() error) (err error) {
	f := os.NewFile(uintptr(fd), st.temp)
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(st.after); err != nil {
		return err
	}
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return err
	}
	st.ino = now.Ino
	if err := st.keepOwner(fd, now); err != nil {
		return err
	}
	if st.before.exists {
		if err := keepACL(int(st.dir.Fd()), st.name, fd); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, st.mode); err != nil { // after the access list, whose entries the mode bounds
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := name(); err != nil {
		return fmt.Errorf("%w: %w", errNameless, err)
	}
	return nil
}

// keepOwner gives the new file the owner and group of the one it replaces, or refuses the replacement.
func (st *pendingChange) keepOwner(fd int, now unix.Stat_t) error {
	if !st.before.exists || now.Uid == st.before.uid && now.Gid == st.before.gid {
		return nil
	}
	uid, gid := int(st.before.uid), int(st.before.gid)
	if now.Uid == st.before.uid {
		uid = -1
	}
	if err := unix.Fchown(fd, uid, gid); err != nil {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
			"%s belongs to uid %d and gid %d, and the workspace's owner cannot keep it so",
			quote(st.path), st.before.uid, st.before.gid).
			WithRemedy("change the file's owner, or remove it first").WithCause(err)
	}
	return nil
}

// place puts the change under its name. Afterwards the temporary name holds the former file, which
// must be in the state that the plan bound.
func (st *pendingChange) place() error {
	dir := int(st.dir.Fd())
	var err error
	switch {
	case st.remove:
		err = st.disk.move(dir, st.name, st.temp)
	case st.before.exists:
		err = st.disk.exchange(dir, st.temp, st.name)
	default:
		err = st.disk.move(dir, st.temp, st.name)
	}
	if err == unix.ENOENT {
		return moved(st.path)
	}
	if err != nil {
		return err
	}
	st.put = true
	if !st.before.exists {
		return nil
	}
	f, was, err := regularAt(dir, st.temp, st.path)
	if err != nil {
		return moved(st.path).WithCause(err)
	}
	defer func() { _ = f.Close() }()
	if uint32(was.Mode)&0o7777 != st.before.mode || was.Uid != st.before.uid || was.Gid != st.before.gid {
		return moved(st.path)
	}
	old, err := readAll(f, st.path, int64(len(st.before.content)))
	if err != nil || palyra.SumBytes(old) != st.before.digest {
		return moved(st.path).WithCause(err)
	}
	return nil
}

// verify checks that the directory that was written to is still where the plan says: one that was
// moved away meanwhile must not keep the change.
func (st *pendingChange) verify(r *root) error {
	var held, found unix.Stat_t
	fd, err := r.open(path.Dir(st.path), oPath|unix.O_DIRECTORY)
	if err != nil {
		return moved(st.path).WithCause(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := errors.Join(unix.Fstat(fd, &found), unix.Fstat(int(st.dir.Fd()), &held)); err != nil {
		return err
	}
	if held.Dev != found.Dev || held.Ino != found.Ino {
		return moved(st.path)
	}
	return nil
}

// end removes the file under the temporary name, after undoing the change unless keep is set.
func (st *pendingChange) end(keep bool) error {
	dir := int(st.dir.Fd())
	if st.put && !keep {
		if err := st.undo(dir); err != nil {
			return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the call failed, and %s could not be put back as it was", quote(st.path)).
				WithRemedy("its former content is in %s beside it, if that exists", st.temp).WithCause(err)
		}
	}
	if err := unix.Unlinkat(dir, st.temp, 0); err != nil && err != unix.ENOENT {
		return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the temporary file %s beside %s could not be removed", st.temp,
			quote(st.path)).
			WithRemedy("remove it by hand").WithCause(err)
	}
	return nil
}

// undo restores the old state. Where somebody else has removed or replaced our file since, there is
// nothing to undo: they would have done the same to the old one.
func (st *pendingChange) undo(dir int) error {
	if st.remove {
		return st.disk.move(dir, st.temp, st.name)
	}
	var now unix.Stat_t
	err := unix.Fstatat(dir, st.name, &now, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT || err == nil && now.Ino != st.ino {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.before.exists {
		return unix.Unlinkat(dir, st.name, 0)
	}
	return st.disk.exchange(dir, st.temp, st.name)
}
