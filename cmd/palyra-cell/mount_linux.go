package main

import (
	"errors"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
)

// attach mounts a detached tree over target.
func attach(tree, target int) error {
	return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// clone makes a detached mount of what fd refers to, with all that is mounted below it, and sets attributes.
func clone(fd int, attributes uint64) (tree int, err error) {
	tree, err = unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil || attributes == 0 {
		return tree, err
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return -1, errors.Join(err, unix.Close(tree))
	}
	return tree, nil
}

// mountOver lays a copy of the mount at source, with attributes, over target.
func mountOver(source, target int, attributes uint64) error {
	tree, err := clone(source, attributes)
	if err != nil {
		return err
	}
	return errors.Join(attach(tree, target), unix.Close(tree))
}

// The attributes of mounts laid over paths of a room, which needs neither devices nor setuid there.
const (
	inert    = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// scratch makes a small file system in memory that is mounted nowhere: its content can be reached
// by the descriptor alone, until it is laid over something.
func scratch() (int, error) {
	return tmpfs([][2]string{{"mode", "0755"}, {"nr_inodes", "8"}})
}

// tmpfs makes a file system in memory.
func tmpfs(options [][2]string) (int, error) {
	return mountable("tmpfs", options, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// mountable makes a file system that is mounted nowhere yet.
func mountable(kind string, options [][2]string, attributes int) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(fs) }()
	for _, option := range options {
		if err := unix.FsconfigSetString(fs, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
}

// spreadCovers makes an empty file and an empty directory, of which covers are made by copying their mount. A template
// keeps them where each room mounts a file system of its own, once it has hidden what it hides.
func spreadCovers() error {
	fs, err := scratch()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fs) }()
	if err := stub(fs, "file"); err != nil {
		return err
	}
	if err := unix.Mkdirat(fs, "directory", 0o555); err != nil {
		return err
	}
	if err := unix.MountSetattr(fs, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: inert}); err != nil {
		return err
	}
	return withPath(unix.AT_FDCWD, cell.RoomShm, unix.RESOLVE_NO_SYMLINKS, func(target int, _ *unix.Stat_t) error {
		return attach(fs, target)
	})
}

// hide lays an empty file or directory over each of the paths.
func hide(paths []string) (text string, err error) {
	if len(paths) == 0 {
		return "", nil
	}
	var covers [2]int // a file, a directory
	for i, name := range []string{"file", "directory"} {
		if covers[i], err = ruleset.Open(cell.RoomShm+"/"+name, true); err != nil {
			return cell.RoomShm, err
		}
		defer func() { _ = unix.Close(covers[i]) }()
	}
	return eachPath(paths, func(target int, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return mountOver(covers[1], target, 0)
		}
		return mountOver(covers[0], target, 0)
	})
}

// fix makes each of the paths read-only where it is.
func fix(paths []string) (text string, err error) {
	return eachPath(paths, func(target int, _ *unix.Stat_t) error { return mountOver(target, target, unix.MOUNT_ATTR_RDONLY) })
}

// eachPath calls do with each of the paths that exists, and names the one that failed. A path is
// passed over only when it is missing; any other error of opening it counts.
func eachPath(paths []string, do func(target int, st *unix.Stat_t) error) (text string, err error) {
	for _, p := range paths {
		found := false
		err := withPath(unix.AT_FDCWD, p, unix.RESOLVE_NO_SYMLINKS, func(target int, st *unix.Stat_t) error {
			found = true
			return do(target, st)
		})
		if missing := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR); err != nil && (found || !missing) {
			return p, err
		}
	}
	return "", nil
}

// withPath opens path, for reference and without following its last part, and calls do with it.
func withPath(dir int, path string, resolve uint64, do func(fd int, st *unix.Stat_t) error) error {
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return do(fd, &st)
}
