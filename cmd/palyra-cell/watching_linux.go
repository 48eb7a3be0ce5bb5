package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The limits of the reader's own user namespace.
const (
	instancesPath = "/proc/sys/user/max_inotify_instances"
	watchesPath   = "/proc/sys/user/max_inotify_watches"
	idsPath       = "/proc/self/uid_map"
)

// errShared means that a limit set here would not be the room's alone.
var errShared = errors.New("this user namespace is not a room's own")

// boundWatching lowers the limits of the room's user namespace for file watching. The kernel charges it to this
// namespace and to all above, each with a limit of its own, so the lowest one holds.
func boundWatching(w cell.Watching) (text string, err error) {
	if w == (cell.Watching{}) {
		return "", nil
	}
	ids, err := os.ReadFile(idsPath)
	if err != nil {
		return idsPath, err
	}
	if !ofOne(string(ids)) {
		return idsPath, errShared
	}
	if err := lowerTo(instancesPath, w.Instances); err != nil {
		return instancesPath, err
	}
	if err := lowerTo(watchesPath, w.Watches); err != nil {
		return watchesPath, err
	}
	return "", nil
}

// ofOne reports whether a namespace has exactly one user. Limits are for each user of a namespace, so only there is
// one limit for the whole of it; the machine's own namespace, whose limits are everybody's, has many.
func ofOne(ids string) bool {
	fields := strings.Fields(ids)
	return len(fields) == 3 && fields[2] == "1"
}

// lowerTo writes a limit, unless it is as low already, and checks that it holds.
func lowerTo(path string, n int64) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_RDWR | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return unix.EMEDIUMTYPE
	}
	if now, err := limitIn(f); err != nil || now <= n {
		return err
	}
	if _, err := f.WriteAt([]byte(strconv.FormatInt(n, 10)+"\n"), 0); err != nil {
		return err
	}
	if now, err := limitIn(f); err != nil || now > n {
		return fmt.Errorf("it was set to %d and is %d: %w", n, now, errors.Join(err, unix.EIO))
	}
	return nil
}

func limitIn(f *os.File) (int64, error) {
	var b [24]byte
	n, err := f.ReadAt(b[:], 0)
	if n == 0 {
		return 0, err
	}
	now, err := strconv.ParseInt(string(bytes.TrimSpace(b[:n])), 10, 64)
	if err == nil && now < 0 {
		err = unix.ERANGE
	}
	return now, err
}
