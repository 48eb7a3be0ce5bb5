package main

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// furnish mounts a file system in memory over each private place of the room, and returns them,
// opened for reference.
func furnish(places []cell.Private) (made []int, text string, err error) {
	for i := range places {
		fs, text, err := lay(&places[i])
		if err != nil {
			return nil, text, err
		}
		made = append(made, fs)
	}
	return made, "", nil
}

// terminalsPath is where programs find the terminals that they make.
const terminalsPath = "/dev/pts"

// terminals gives the room terminals of its own, where its template shows the directory for them.
func terminals() error {
	err := withPath(unix.AT_FDCWD, terminalsPath, unix.RESOLVE_NO_SYMLINKS, func(target int, _ *unix.Stat_t) error {
		fs, err := mountable("devpts", [][2]string{{"ptmxmode", "0666"}, {"mode", "0620"}}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return err
		}
		return errors.Join(attach(fs, target), unix.Close(fs))
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// lay makes one place. Mounts below it that are to stay are cloned before, with everything mounted
// in them, and put back after: the new file system would cover them.
func lay(p *cell.Private) (fs int, text string, err error) {
	kept := make([]int, 0, len(p.Keep))
	defer func() {
		for _, fd := range kept {
			_ = unix.Close(fd)
		}
	}()
	for _, k := range p.Keep {
		fd, err := take(k)
		if err != nil {
			return -1, k, err
		}
		kept = append(kept, fd)
	}
	fs, err = tmpfs([][2]string{
		{"mode", strconv.FormatInt(int64(p.Mode), 8)},
		{"size", strconv.FormatInt(p.Bytes, 10)},
		{"nr_inodes", strconv.FormatInt(p.Inodes, 10)},
	})
	if err != nil {
		return -1, p.Path, err
	}
	if err := withPath(unix.AT_FDCWD, p.Path, unix.RESOLVE_NO_SYMLINKS, func(target int,
		_ *unix.Stat_t,
	) error {
		return attach(fs, target)
	}); err != nil {
		return -1, p.Path, err
	}
	for i, k := range p.Keep {
		if err := put(kept[i], fs, strings.TrimPrefix(k, p.Path+"/")); err != nil {
			return -1, k, err
		}
	}
	return fs, "", nil
}

// take clones what is at name: a mount, or a file that lies there for this. A directory that is no
// mount was never shown on purpose.
func take(name string) (tree int, err error) {
	tree = -1
	err = withPath(unix.AT_FDCWD, name, unix.RESOLVE_NO_SYMLINKS, func(fd int, st *unix.Stat_t) error {
		var more unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &more); err != nil {
			return err
		}
		if more.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 && st.Mode&unix.S_IFMT != unix.S_IFREG {
			return unix.EINVAL
		}
		tree, err = clone(fd, 0)
		return err
	})
	return tree, err
}

// put mounts a tree in a new file system, at a path that is made for it.
func put(tree, fs int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	for i, c := range name {
		if c != '/' {
			continue
		}
		if err := unix.Mkdirat(fs, name[:i], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := unix.Mkdirat(fs, name, 0o755); err != nil {
			return err
		}
	} else if err := stub(fs, name); err != nil {
		return err
	}
	return withPath(fs, name, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS,
		func(target int, _ *unix.Stat_t) error { return attach(tree, target) })
}

// stub makes an empty file to mount something on.
func stub(fs int, name string) error {
	fd, err := unix.Openat(fs, name, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
