package beneath

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// As does something by the rights of somebody, who is known by numbers.
type As func(uid, gid uint32, f func() error) error

// Remove takes a directory away with all that is in it, each thing by its owner's rights. What is named first goes first:
// whoever finds half of the directory finds it without that.
func Remove(as As, dir int, name string, first ...string) error {
	top, err := OpenDir(dir, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	errs := []error{Clear(as, int(top.Fd()), first...)}
	names, err := top.Readdirnames(-1)
	errs = append(errs, err, Clear(as, int(top.Fd()), names...), unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
	return errors.Join(errs...)
}

// Clear removes entries of a directory. Becoming somebody takes a thread of its own: it is done once for
// all full directories of one owner, and not at all for empty ones.
func Clear(as As, top int, names ...string) error {
	full := map[[2]uint32][]string{} // by uid and gid
	var errs []error
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Fstatat(top, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err != nil:
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			err = unix.Unlinkat(top, name, 0)
		default:
			if err = unix.Unlinkat(top, name, unix.AT_REMOVEDIR); err == unix.ENOTEMPTY || err == unix.EEXIST {
				of := [2]uint32{st.Uid, st.Gid}
				full[of], err = append(full[of], name), nil
			}
		}
		errs = append(errs, Ignore(err, unix.ENOENT))
	}
	for of, names := range full {
		errs = append(errs, emptyAs(as, of[0], of[1], top, names))
	}
	return errors.Join(errs...)
}

// emptyAs removes directories of a directory with all that is in them, by their owner's rights.
func emptyAs(as As, uid, gid uint32, top int, names []string) error {
	var dirs []*os.File
	var errs []error
	for _, name := range names {
		dir, err := OpenDir(top, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer func() { _ = dir.Close() }()
		dirs = append(dirs, dir)
	}
	errs = append(errs, as(uid, gid, func() (err error) {
		for _, dir := range dirs {
			err = errors.Join(err, Empty(dir))
		}
		return err
	}))
	for _, name := range names {
		errs = append(errs, Ignore(unix.Unlinkat(top, name, unix.AT_REMOVEDIR), unix.ENOENT))
	}
	return errors.Join(errs...)
}
