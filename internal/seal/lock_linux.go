package seal

import (
	"errors"

	"golang.org/x/sys/unix"
)

// lock is a directory whose mode was changed to open it, and its former mode.
type lock struct {
	dir  int32
	id   ident
	mode uint32
}

// openDir opens a directory for reading. If its mode does not allow that, it changes the mode, where we are the
// owner or root. EACCES means that it belongs to another user who lets neither us nor the run in.
func (w *walker) openDir(i int32, path string) (fd int, st status, forced bool, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
	fd, err = w.t.open(path, flags)
	if errors.Is(err, unix.EACCES) {
		if err := w.unlock(i, path); err != nil {
			return -1, st, false, err
		}
		forced = true
		fd, err = w.t.open(path, flags)
	}
	if err != nil {
		return -1, st, false, err
	}
	if st, err = w.t.look(fd, ""); err == nil && w.t.euid != 0 {
		err = w.passable(fd, i, path, st, &forced)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, false, err
	}
	return fd, st, forced, nil
}

// passable makes sure that the entries of a directory can be reached: it may be readable without search permission.
func (w *walker) passable(fd int, i int32, path string, st status, forced *bool) error {
	if int(st.uid) != w.t.euid {
		return unix.Faccessat(fd, ".", unix.X_OK, 0)
	}
	if st.mode&0o500 == 0o500 || *forced {
		return nil
	}
	*forced = true
	return w.unlock(i, path)
}

// unlock changes a directory's mode so that its owner has access, by descriptor.
func (w *walker) unlock(i int32, path string) error {
	fd := w.t.fd // a workspace that was closed cannot be opened from within
	if path != "" {
		var err error
		if fd, err = w.t.open(path, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return err
		}
		defer unix.Close(fd)
	}
	st, err := w.t.look(fd, "")
	if err != nil {
		return err
	}
	if w.t.euid != 0 && int(st.uid) != w.t.euid {
		return unix.EACCES
	}
	if err := chmod(fd, st.mode|0o700); err != nil {
		return err
	}
	w.locks = append(w.locks, lock{i, st.id, st.mode})
	return nil
}

// writable makes sure that the owner can write to a directory, until shut.
func (w *walker) writable(i int32, path string) error {
	fd, err := w.t.open(path, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.EACCES) {
		return w.unlock(i, path)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := w.t.look(fd, "")
	if err != nil || st.mode&0o300 == 0o300 {
		return err
	}
	return w.unlock(i, path)
}

// passableTo makes sure that the owner can reach a directory and write to it, until shut.
func (w *walker) passableTo(i int32) error {
	if i != 0 {
		if err := w.passableTo(w.out.dirs[i].parent); err != nil {
			return err
		}
	}
	return w.writable(i, w.out.path(i))
}

// shut restores the modes of directories that were opened by force, as far as they still exist.
func (w *walker) shut() {
	for i := len(w.locks) - 1; i >= 0; i-- {
		l := w.locks[i]
		fd, err := w.t.open(w.out.path(l.dir), unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		if st, err := w.t.look(fd, ""); err == nil && st.id == l.id {
			_ = chmod(fd, l.mode)
		}
		_ = unix.Close(fd)
	}
	w.locks = nil
}
