// Package cachedir makes the directories that runs may write beside their workspaces.
package cachedir

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/subpath"
)

// passMode lets others pass but not list.
const passMode = 0o711

// UnsafeError means that somebody else could change the directory that all caches are in.
type UnsafeError struct{ Path string }

// Error implements error.
func (e *UnsafeError) Error() string {
	return "cachedir: " + e.Path + " is not the daemon's own, or others may write to it"
}

// Maker makes directories below one of the daemon's own.
type Maker struct {
	root string
	top  *os.File
	at   string   // path below root of the parent of what was made last; empty: there is none
	dir  *os.File // which is this
}

// Open makes the root where it is missing. It refuses one that others could change.
func Open(root string) (*Maker, error) {
	switch err := os.Mkdir(root, 0o700); {
	case err == nil:
		err = os.Chmod(root, passMode) // whatever the umask
		if err != nil {
			return nil, err
		}
	case !errors.Is(err, os.ErrExist):
		return nil, err
	}
	top, err := beneath.OpenDir(unix.AT_FDCWD, root)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(top.Fd()), &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return nil, errors.Join(&UnsafeError{root}, err, top.Close())
	}
	return &Maker{root: root, top: top}, nil
}

// Close closes what is open.
func (m *Maker) Close() error {
	if m.dir != nil {
		_ = m.dir.Close()
		m.dir = nil
	}
	return m.top.Close()
}

// Make makes a directory that a run may write, with its parents, and gives it to the run's user. Everything above it
// stays the daemon's, so that a run cannot put a link in the way. An existing one stays unchanged.
func (m *Maker) Make(path string, uid, gid int) error {
	rel, ok := subpath.Rel(m.root, path)
	if !ok || rel == "." {
		return fmt.Errorf("%q is not below %q", path, m.root)
	}
	above, name, nested := cutLast(rel)
	parent := m.top
	if nested {
		if err := m.enter(above, gid); err != nil {
			return err
		}
		parent = m.dir
	}
	made, err := makeDir(parent, name, uid, gid, true)
	if err != nil {
		return err
	}
	return made.Close()
}

// cutLast cuts a path before its last name.
func cutLast(rel string) (above, name string, nested bool) {
	i := strings.LastIndexByte(rel, '/')
	return rel[:max(i, 0)], rel[i+1:], i >= 0
}

// enter opens a directory of the daemon's own below the root, and makes it where it is missing.
func (m *Maker) enter(rel string, gid int) error {
	if m.dir != nil && m.at == rel {
		return nil
	}
	dir := m.top
	for name := range strings.SplitSeq(rel, "/") {
		next, err := makeDir(dir, name, 0, gid, false)
		if dir != m.top {
			_ = dir.Close()
		}
		if err != nil {
			return err
		}
		_ = unix.Futimes(int(next.Fd()), nowTwice()) // its time of use decides how long it is kept
		dir = next
	}
	if m.dir != nil {
		_ = m.dir.Close()
	}
	m.at, m.dir = rel, dir
	return nil
}

// nowTwice is the present time, as times of last access and change.
func nowTwice() []unix.Timeval {
	tv := unix.NsecToTimeval(time.Now().UnixNano())
	return []unix.Timeval{tv, tv}
}

// makeDir makes one directory, or opens an existing one. It refuses one that belongs to neither the
// daemon nor the run's user.
func makeDir(dir *os.File, name string, user, gid int, last bool) (*os.File, error) {
	uid, mode := os.Geteuid(), uint32(passMode)
	if last {
		uid, mode = user, 0o700
	}
	next, owner, err := openOwned(dir, name)
	if err == nil && owner == uid && (last || passable(next)) {
		return next, nil
	}
	if err == nil {
		_ = next.Close()
	}
	giving.Lock()
	defer giving.Unlock()
	err = unix.Mkdirat(int(dir.Fd()), name, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	if next, owner, err = openOwned(dir, name); err != nil {
		return nil, err
	}
	if made || owner == os.Geteuid() && (owner != uid || !last) { // whoever made it ended before it was given away
		if err := beneath.Give(int(dir.Fd()), name, uid, gid, mode); err != nil {
			return nil, errors.Join(err, next.Close())
		}
		owner = uid
	}
	if owner != uid {
		return nil, errors.Join(fmt.Errorf("%q does not belong to uid %d", name, uid), next.Close())
	}
	return next, nil
}

// passable reports whether others may pass a directory of the daemon's, where it works for others.
func passable(dir *os.File) bool {
	info, err := dir.Stat()
	return os.Geteuid() != 0 || err == nil && info.Mode().Perm() == passMode
}

// giving is held while a cache is made and given to its user: nobody else may find it in between.
var giving sync.Mutex

// openOwned opens a directory, and says whose it is.
func openOwned(dir *os.File, name string) (*os.File, int, error) {
	f, err := beneath.OpenDir(int(dir.Fd()), name)
	if err != nil {
		return nil, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, int(st.Uid), nil
}
