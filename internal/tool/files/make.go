//go:build unix

package files

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"palyra"
)

// makeDirs makes the missing directories of rel and returns those it made.
func (r *root) makeDirs(rel string, mode uint32, call palyra.CallID, d disk) (made []string, err error) {
	at, _, missing, err := r.nearest(rel)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(at) }()
	for missing != "" {
		ours, err := d.makeDir(at, path.Base(missing), tempName(call), mode)
		if ours {
			made = append(made, missing)
		}
		if err != nil {
			return made, err
		}
		next, err := openat(at, path.Base(missing), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return made, err
		}
		_ = unix.Close(at)
		at = next
		missing = nextComponent(missing, rel)
	}
	return made, nil
}

// makeDir makes one directory unless somebody else has. It gets its permissions under a temporary
// name: a plan for a file in it that saw it half made would take the wrong ones.
func (d disk) makeDir(at int, name, temp string, mode uint32) (ours bool, err error) {
	if d.noReplaceFlag {
		return makeDirInPlace(at, name, mode)
	}
	if _, err := makeDirInPlace(at, temp, mode); err != nil {
		return false, errors.Join(err, removeDir(at, temp))
	}
	err = move(at, temp, name)
	if err == nil {
		return true, nil
	}
	if gone := removeDir(at, temp); gone != nil {
		return false, errors.Join(err, gone)
	}
	if lacking(err) {
		return makeDirInPlace(at, name, mode)
	}
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	return false, err
}

func makeDirInPlace(at int, name string, mode uint32) (ours bool, err error) {
	if err := unix.Mkdirat(at, name, 0o700); err != nil {
		if err == unix.EEXIST {
			return false, nil
		}
		return false, err
	}
	fd, err := openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return true, err
	}
	defer func() { _ = unix.Close(fd) }()
	return true, setDirMode(fd, mode)
}

func removeDir(at int, name string) error {
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return err
	}
	return nil
}

// setDirMode sets the permissions, whatever the daemon's umask, and leaves the set-group-id bit
// that the parent handed down.
func setDirMode(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Fchmod(fd, mode|uint32(st.Mode)&unix.S_ISGID)
}

// nextComponent returns the path one component longer than dir on the way to rel.
func nextComponent(dir, rel string) string {
	if dir == rel {
		return ""
	}
	for up := path.Dir(rel); up != dir; up = path.Dir(rel) {
		rel = up
	}
	return rel
}

// unmake removes directories that a failed call made, deepest first. One that is not empty is in
// use by somebody else.
func (r *root) unmake(made []string) {
	for _, rel := range slices.Backward(made) {
		parent, err := r.open(path.Dir(rel), oPath|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		_ = unix.Unlinkat(parent, path.Base(rel), unix.AT_REMOVEDIR)
		_ = unix.Close(parent)
	}
}
