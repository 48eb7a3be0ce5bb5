package beneath

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Empty removes all that is in a directory which a hostile program filled. It follows no link and never goes up:
// every name is taken below an open directory. Deep trees are not climbed into either, so neither stack nor
// descriptors nor path lengths bound it: a directory that is not empty is moved to the top and is swept when its
// turn comes, so that each is moved at most once. Who goes on filling it meanwhile is not waited for: what is left
// after a while stays, and the error says so.
func Empty(top *os.File) error {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	s := sweeper{began: time.Now(), top: int(top.Fd()), prefix: "." + hex.EncodeToString(random[:]) + "."}
	for {
		before, found := s.done, 0
		err := eachEntry(s.top, ".", func(_ int, name string) error {
			found++
			return s.clear(name)
		})
		if found == 0 || s.done == before { // empty, or what is left stays
			return err
		}
		if time.Since(s.began) > emptyWithin {
			return errFilled
		}
	}
}

// emptyWithin is how long Empty takes at most, but for what is in one directory. Half a million files
// take some seconds.
const emptyWithin = time.Minute

// errFilled: somebody puts more into a directory than is removed.
var errFilled = errors.New("beneath: somebody goes on filling it")

type sweeper struct {
	began  time.Time
	top    int
	prefix string // of directories moved up: nobody else has such a name
	moved  int
	done   int // entries removed or moved: as long as there are some it goes on
}

// clear removes an entry of the top: a file, or a directory once its files are
// gone and its own directories are moved up.
func (s *sweeper) clear(name string) error {
	err := s.drop(s.top, name)
	if !notEmpty(err) {
		return err
	}
	err = eachEntry(s.top, name, func(dir int, child string) error {
		err := s.drop(dir, child)
		if notEmpty(err) {
			err = s.raise(dir, child)
		}
		return err
	})
	if gone := s.drop(s.top, name); gone == nil || err == nil {
		return gone
	}
	return err
}

// raise moves a directory to the top. Moving one writes to it, so it must be writable first.
func (s *sweeper) raise(dir int, name string) error {
	f, err := OpenDir(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	s.moved++
	if err := unix.Renameat(dir, name, s.top, s.prefix+strconv.Itoa(s.moved)); err != nil {
		return err
	}
	s.done++
	return nil
}

// drop removes a file or an empty directory.
func (s *sweeper) drop(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	if err == nil {
		s.done++
	}
	return err
}

func notEmpty(err error) bool { return errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) }

// eachEntry calls f for the entries of a directory, a batch at a time. It returns the first error and goes on after
// it. Entries that come and go meanwhile may be missed: the sweep looks again.
func eachEntry(parent int, name string, f func(dir int, name string) error) error {
	dir, err := OpenDir(parent, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	const batch = 1024
	began := time.Now()
	for {
		if time.Since(began) > emptyWithin {
			return errFilled
		}
		names, end := dir.Readdirnames(batch)
		for _, n := range names {
			if e := f(int(dir.Fd()), n); e != nil && err == nil {
				err = e
			}
		}
		if end != nil {
			if err == nil && !errors.Is(end, io.EOF) {
				err = end
			}
			return err
		}
	}
}

// OpenDir opens a directory, never a link, and makes it one that its owner may read and change. One that its owner
// shut is opened first without any right but to change its mode.
func OpenDir(dir int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := unlock(dir, name); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(dir, name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if st.Mode&0o700 != 0o700 {
		if err := unix.Fchmod(fd, 0o700); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// unlock gives a directory back to its owner.
func unlock(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}
