package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/beneath"
	"palyra/internal/repofind"
	"palyra/internal/subpath"
)

// makeCache makes a directory below root that a run may write, with its parents, and gives it to
// the run's user. Everything above it stays the daemon's, so that a run cannot put a link in the
// way. An existing one stays unchanged.
func makeCache(root, path string, who identity) error {
	rel, ok := subpath.Rel(root, path)
	if !ok || rel == "." {
		return fmt.Errorf("%q is not below %q", path, root)
	}
	switch err := os.Mkdir(root, 0o700); {
	case err == nil:
		err = os.Chmod(root, privateMode) // whatever the umask
		if err != nil {
			return err
		}
	case !errors.Is(err, os.ErrExist):
		return err
	}
	dir, err := beneath.OpenDir(unix.AT_FDCWD, root)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return errors.Join(unsafeDir(root, "it is not the daemon's own, or others may write to it"), err)
	}
	parts := strings.Split(rel, "/")
	for i, name := range parts {
		last := i == len(parts)-1
		next, err := makeDir(dir, name, who, last)
		if err != nil {
			return err
		}
		if !last { // the daemon's own; its time of use decides how long it is kept
			_ = unix.Futimes(int(next.Fd()), nowTwice())
		}
		_ = dir.Close()
		dir = next
	}
	return nil
}

// caches are the directories that a run may write beside its workspace.
type caches struct {
	since time.Time // when the first one was added
	dirs  []string
}

func (c *caches) add(dir string) {
	if c.dirs = append(c.dirs, dir); len(c.dirs) == 1 {
		c.since = repofind.Clock()
	}
}

// The limits of a look through a run's caches: a few milliseconds, whatever is there.
const (
	cacheEntries = 4_000 // in all caches together
	mostPlanted  = 16    // named of one cache
)

// planted returns the repositories that were made or changed in the run's caches since it began.
// They stay: package managers keep repositories there, and nothing tells these apart. Links from
// workspaces to them are removed instead.
func (l *runStart) planted() (out []palyra.Remnant) {
	if len(l.caches.dirs) == 0 {
		return nil
	}
	s := repofind.Search{Since: l.caches.since, Entries: cacheEntries, Most: mostPlanted}
	var all []repofind.Found
	err := runAs(l.who, func() error { all = s.In(l.caches.dirs...); return nil })
	for i, dir := range l.caches.dirs {
		name, found := filepath.Base(dir), repofind.Found{Err: err}
		if err == nil {
			found = all[i]
		}
		for _, path := range found.Paths {
			out = append(out, palyra.Remnant{Kind: palyra.RemnantCache, Path: filepath.Join(name, path)})
		}
		switch {
		case found.Err != nil: // a run may close its own cache; the others are looked at all the same
			l.Log.Warn("a cache of a run could not be looked through", "call", string(l.call), "cache", name, "err", found.Err)
			fallthrough
		case found.Partly:
			out = append(out, palyra.Remnant{Kind: palyra.RemnantUnsearched, Path: name})
		case found.More > 0:
			out[len(out)-1].More = int64(found.More)
		}
	}
	return out
}

// nowTwice is the present time, as times of last access and change.
func nowTwice() []unix.Timeval {
	tv := unix.NsecToTimeval(time.Now().UnixNano())
	return []unix.Timeval{tv, tv}
}

// makeDir makes one directory, or opens an existing one. It refuses one that belongs to neither the
// daemon nor the run's user.
func makeDir(dir *os.File, name string, who identity, last bool) (*os.File, error) {
	uid, mode := os.Geteuid(), uint32(privateMode)
	if last {
		uid, mode = who.uid, 0o700
	}
	next, owner, err := openOwned(dir, name)
	if err == nil && owner == uid {
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
	if made || owner == os.Geteuid() && owner != uid { // whoever made it ended before it was given away
		if err := setOwner(int(dir.Fd()), name, uid, who.gid, mode); err != nil {
			return nil, errors.Join(err, next.Close())
		}
		owner = uid
	}
	if owner != uid {
		return nil, errors.Join(fmt.Errorf("%q does not belong to uid %d", name, uid), next.Close())
	}
	return next, nil
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
