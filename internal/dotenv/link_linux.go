package dotenv

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/subpath"
)

// maxLinks is how many links the kernel follows.
const maxLinks = 40

// follower follows links as programs do that find the directory under the workspace's path: out of it, and back into it.
type follower struct {
	look      *look
	workspace string // as it was given
	real      string // without links; empty: not known yet
	host      fileID // the directory that lies at that path, which a stage covers
}

// know finds out what the workspace is called.
func (f *follower) know() (err error) {
	if f.real != "" {
		return nil
	}
	var st unix.Stat_t
	if f.real, err = filepath.EvalSymlinks(f.workspace); err == nil {
		err = unix.Stat(f.real, &st)
	}
	if err != nil {
		return &BoundError{Why: "where its links lead cannot be told: " + err.Error()}
	}
	f.host = idOf(&st)
	return nil
}

// inside is a whole path as it is called in the directory: empty for the directory itself. False: it lies outside.
func (f *follower) inside(p string) (rel string, ok bool) {
	rel, ok = subpath.Rel(f.real, p)
	if rel == "." {
		rel = ""
	}
	return rel, ok
}

// open opens what a whole path without links leads to, for looking at it only. A link is not followed.
func (f *follower) open(p string) (fd int, st unix.Stat_t, err error) {
	at, name := unix.AT_FDCWD, p
	if rel, ok := f.inside(p); ok {
		at, name = f.look.top, path.Join(".", rel)
	}
	if fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// linkTarget is what a path leads to.
type linkTarget struct {
	rel   string // in the directory; empty: it lies outside
	st    unix.Stat_t
	mount uint64   // of what lies outside
	links []string // in the directory, on the way
}

// isFile reports whether it is one.
func (t linkTarget) isFile() bool { return t.st.Mode&unix.S_IFMT == unix.S_IFREG }

// follow finds what a path in the directory leads to; nothing, where nobody finds anything there. Where that cannot be told it is a
// BoundError.
func (f *follower) follow(rel string) (t linkTarget, err error) {
	err = unix.Fstatat(f.look.top, rel, &t.st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && t.st.Mode&unix.S_IFMT != unix.S_IFLNK {
		t.rel = rel
		return t, nil
	}
	if err == nil {
		err = f.know()
	}
	if err == nil {
		t, err = f.walk(path.Join(f.real, rel))
	}
	switch {
	case gone(err):
		return linkTarget{}, nil
	case errors.Is(err, errEach):
		err = &BoundError{Path: rel, Why: errEach.Why}
	case err != nil && !errors.As(err, new(*BoundError)):
		err = &BoundError{Path: rel, Why: "where it leads cannot be told: " + err.Error()}
	}
	return t, err
}

// errEach means that a link goes by way of a process: it is another file for everybody who follows it.
var errEach = &BoundError{Why: "it leads through /proc, to another file for each program"}

// walk goes along a whole path, link by link.
func (f *follower) walk(whole string) (t linkTarget, err error) {
	done, todo := "/", strings.Split(whole, "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, name)
		st, to, err := f.step(next)
		switch {
		case err != nil:
			return t, err
		case to == "":
			done = next
			if id := idOf(&st); id == f.host || id == idOf(&f.look.topStat) { // also where it is mounted once more
				done = f.real
			}
			continue
		}
		if rel, in := f.inside(next); in {
			t.links = append(t.links, rel)
		}
		if links++; links > maxLinks {
			return t, unix.ELOOP
		}
		if len(todo) > maxPath {
			return t, unix.ENAMETOOLONG
		}
		if path.IsAbs(to) {
			done = "/"
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	fd, st, err := f.open(done)
	if err != nil {
		return t, err
	}
	defer func() { _ = unix.Close(fd) }()
	t.st, t.mount = st, mountOf(fd)
	t.rel, _ = f.inside(done)
	return t, nil
}

// step looks at a path on whose way there are no links. to is where it leads, if it is a link itself.
func (f *follower) step(p string) (st unix.Stat_t, to string, err error) {
	fd, st, err := f.open(p)
	if err != nil {
		return st, "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return st, "", nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return st, "", err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return st, "", errEach
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	return st, string(buf[:max(n, 0)]), err
}

// mayBeInside reports whether a file outside can have a name in the directory: another one (a hard link), or the same where a part
// of a file system is mounted at several places.
func (f *follower) mayBeInside(t linkTarget) bool {
	if t.st.Nlink > 1 {
		return true
	}
	return (uint64(t.st.Dev) == uint64(f.look.topStat.Dev) || uint64(t.st.Dev) == f.host.dev) && t.mount != mountOf(f.look.top)
}

// mountOf is where something open is mounted; 0: the kernel does not tell.
func mountOf(fd int) uint64 {
	var stx unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &stx) != nil {
		return 0
	}
	return stx.Mnt_id
}
