package beneath

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Resolve is how paths are resolved: below a directory, without following a link or entering another file system.
const Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS

// OpenTree opens the top of a tree by an absolute path without links.
func OpenTree(path string) (int, error) {
	return OpenAt2(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
}

// OpenIn opens something below an open directory.
func OpenIn(dir int, rel string, flags int) (int, error) {
	rel = cmp.Or(rel, ".")
	return OpenAt2(dir, rel, flags|unix.O_NOFOLLOW, Resolve)
}

// OpenAt2 is openat2, again where the kernel asks for that.
func OpenAt2(dir int, rel string, flags int, resolve uint64) (int, error) {
	for {
		fd, err := unix.Openat2(dir, rel, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// InParent calls f with the directory that a path lies in, and its last part.
func InParent(top int, rel string, f func(dir int, name string) error) error {
	dir, err := OpenIn(top, Parent(rel), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	return f(dir, path.Base(rel))
}

// Parent is the directory that a path lies in, "" for the top.
func Parent(rel string) string {
	i := strings.LastIndexByte(rel, '/')
	return rel[:max(i, 0)]
}

// Join is a name below a directory, which is "" for the top.
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// ProcName is a name in an open directory as a path.
func ProcName(dir int, name string) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name }

// LookAt looks at a name. Missing: nothing is there.
func LookAt(dir int, name string) (st unix.Stat_t, missing bool, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	missing = errors.Is(err, unix.ENOENT)
	return st, missing, Ignore(err, unix.ENOENT)
}

// LookBelow looks at a path below a directory.
func LookBelow(top int, path string) (st *unix.Stat_t, missing bool, err error) {
	err = InParent(top, path, func(dir int, name string) error {
		var s unix.Stat_t
		s, missing, err = LookAt(dir, name)
		st = &s
		return err
	})
	return st, missing || errors.Is(err, unix.ENOENT), Ignore(err, unix.ENOENT)
}

// Target is what a symbolic link below a directory says.
func Target(top int, path string) (text string, err error) {
	err = InParent(top, path, func(dir int, name string) error {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buf)
		text = string(buf[:max(n, 0)])
		return err
	})
	return text, err
}

// IsDir reports whether it is a directory.
func IsDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// NamesOf lists a directory with at most so many names, sorted.
func NamesOf(fd, most int) ([]string, error) {
	var names []string
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
		if len(names) > most {
			return nil, &ManyError{most}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Hold opens a file or directory for reference, so that what was looked at is what
// is worked on. A link is an error.
func Hold(dir int, name string) (fd int, st *unix.Stat_t, err error) {
	if fd, err = OpenIn(dir, name, unix.O_PATH); err != nil {
		return -1, nil, err
	}
	st = &unix.Stat_t{}
	if err = unix.Fstat(fd, st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		return -1, nil, errors.Join(err, unix.Close(fd))
	}
	return fd, st, nil
}

// Chmod works on what a descriptor refers to, also where it is for reference only.
func Chmod(fd int, mode uint32) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) }

// ChmodAt works on a file or directory and never on what a link leads to.
func ChmodAt(dir int, name string, mode uint32) error {
	fd, _, err := Hold(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return Chmod(fd, mode)
}

// OpenRegular opens a regular file for reading. It is looked at before it is
// opened: opening a device or a pipe can do harm.
func OpenRegular(top int, rel string) (*os.File, *unix.Stat_t, error) {
	fd, err := OpenIn(top, rel, unix.O_PATH)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nil, fmt.Errorf("%q is no regular file", rel)
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	return f, &st, err
}

// Futimes gives a file the times of another.
func Futimes(fd int, st *unix.Stat_t) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// readable lists a directory that is its owner's, who may read it whatever its mode says.
func readable(top int, path string, st *unix.Stat_t) ([]string, error) {
	if st.Mode&0o700 != 0o700 {
		err := InParent(top, path, func(dir int, name string) error { return ChmodAt(dir, name, st.Mode&0o3777|0o700) })
		if err != nil {
			return nil, err
		}
	}
	fd, err := OpenIn(top, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return NamesOf(fd, mostInOne)
}

// CopyFile makes a second file of one that is its owner's, who may read it whatever its mode says.
func CopyFile(from int, name string, to int, fresh string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(from, name, buf)
		if err != nil {
			return err
		}
		return unix.Symlinkat(string(buf[:n]), to, fresh)
	case unix.S_IFIFO:
		return unix.Mkfifoat(to, fresh, st.Mode&0o777)
	}
	if st.Mode&0o400 == 0 {
		if err := ChmodAt(from, name, st.Mode&0o777|0o400); err != nil {
			return err
		}
	}
	file, _, err := OpenRegular(from, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	fd, err := unix.Openat(to, fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	second := os.NewFile(uintptr(fd), fresh)
	_, err = io.Copy(second, file)
	return errors.Join(err, unix.Fchmod(fd, st.Mode&0o777), Futimes(fd, st), second.Close())
}

// CopyBelow is CopyFile between two trees, by paths.
func CopyBelow(from int, path string, to int, as string, st *unix.Stat_t) error {
	return InParent(from, path, func(f int, name string) error {
		return InParent(to, as, func(t int, fresh string) error { return CopyFile(f, name, t, fresh, st) })
	})
}

// CopyTree copies what is in a directory under a name, with all that is in it, modes and times included.
func CopyTree(from int, name string, to int, as string) error {
	type made struct {
		path string
		st   *unix.Stat_t
	}
	var dirs []made
	for todo := []string{""}; len(todo) > 0; todo = todo[1:] {
		rel := todo[0]
		st, missing, err := LookBelow(from, name+rel)
		switch {
		case err != nil || missing:
			return errors.Join(err, unix.ENOENT)
		case !IsDir(st):
			if err := CopyBelow(from, name+rel, to, as+rel, st); err != nil {
				return err
			}
			continue
		}
		err = InParent(to, as+rel, func(dir int, n string) error { return unix.Mkdirat(dir, n, 0o700) })
		if err != nil {
			return err
		}
		names, err := readable(from, name+rel, st)
		if err != nil {
			return err
		}
		for _, n := range names {
			todo = append(todo, rel+"/"+n)
		}
		dirs = append(dirs, made{as + rel, st})
	}
	for _, d := range slices.Backward(dirs) { // what is in them is there
		err := InParent(to, d.path, func(dir int, n string) error {
			times := []unix.Timespec{d.st.Atim, d.st.Mtim}
			return errors.Join(ChmodAt(dir, n, d.st.Mode&0o3777), unix.UtimesNanoAt(dir, n, times, unix.AT_SYMLINK_NOFOLLOW))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Ignore is an error but for one kind.
func Ignore(err, but error) error {
	if errors.Is(err, but) {
		return nil
	}
	return err
}

// ManyError says that a directory has more names than are read.
type ManyError struct{ Most int }

// Error implements error.
func (e *ManyError) Error() string { return fmt.Sprintf("more than %d names in one directory", e.Most) }

// mostInOne is how many names of a directory are copied.
const mostInOne = 2_000_000
