package cachedir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The limits of copying the caches of one run.
const (
	ShareWithin  = 30 * time.Second
	shareEntries = 500_000
	shareBytes   = 4 << 30
	shareDepth   = 128
)

// Sharing copies what is new in trees that strangers write to, without leaving either. Whoever uses it has their owner's
// rights.
type Sharing struct {
	ctx     context.Context
	entries int
	bytes   int64
}

var errShareLimit = errors.New("cachedir: a cache is larger than is copied")

// Share returns what copies the caches of one run: no more than is bounded here, and until ctx ends.
func Share(ctx context.Context) *Sharing {
	return &Sharing{ctx: ctx, entries: shareEntries, bytes: shareBytes}
}

// Tree copies a tree into another.
func (s *Sharing) Tree(from, to string) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	return s.dir(source, target, 0)
}

// dir copies the entries of a directory. What one of them fails by is no reason to leave the others.
func (s *Sharing) dir(from, to *os.Root, depth int) (failed error) {
	f, err := from.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		names, err := f.Readdirnames(256)
		for _, name := range names {
			if s.entries--; s.entries < 0 || depth > shareDepth || s.ctx.Err() != nil {
				return errShareLimit
			}
			if err := s.entry(from, to, name, depth); errors.Is(err, errShareLimit) {
				return err
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be gone by now
				failed = err
			}
		}
		if errors.Is(err, io.EOF) {
			return failed
		}
		if err != nil {
			return err
		}
	}
}

func (s *Sharing) entry(from, to *os.Root, name string, depth int) error {
	now, err := from.Lstat(name)
	if err != nil {
		return err
	}
	was, err := to.Lstat(name)
	there := err == nil
	switch {
	case now.IsDir():
		return s.inner(from, to, name, now.Mode().Perm(), depth)
	case now.Mode().IsRegular() && (!there || now.ModTime().After(was.ModTime())):
		return s.file(from, to, name, now)
	case now.Mode()&fs.ModeSymlink != 0 && !there:
		text, err := from.Readlink(name)
		if err != nil {
			return err
		}
		return to.Symlink(text, name)
	}
	return nil
}

// inner copies a directory, into which its owner may not write when it is whole.
func (s *Sharing) inner(from, to *os.Root, name string, mode fs.FileMode, depth int) error {
	if err := to.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if mode&0o200 == 0 {
		if err := to.Chmod(name, 0o700); err != nil {
			return err
		}
	}
	source, err := from.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := to.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	return errors.Join(s.dir(source, target, depth+1), target.Chmod(".", mode))
}

// file copies a file under another name first, so that nobody finds half of it.
func (s *Sharing) file(from, to *os.Root, name string, now fs.FileInfo) error {
	if s.bytes -= now.Size(); s.bytes < 0 || !roomFor(to, now.Size()) {
		return errShareLimit
	}
	if hollow(now) {
		return nil
	}
	in, err := from.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if st, err := in.Stat(); err != nil || !st.Mode().IsRegular() {
		return fmt.Errorf("cachedir: %q is no file any more: %w", name, errors.Join(err, fs.ErrNotExist))
	}
	fresh := ".palyra-" + rand.Text()
	out, err := to.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(reader(func(b []byte) (int, error) {
		if s.ctx.Err() != nil {
			return 0, errShareLimit
		}
		return in.Read(b)
	}), now.Size()))
	err = errors.Join(err, out.Chmod(now.Mode().Perm()), out.Close(), to.Chtimes(fresh, now.ModTime(), now.ModTime()))
	if err == nil {
		err = to.Rename(fresh, name)
	}
	if err != nil {
		_ = to.Remove(fresh)
	}
	return err
}

type reader func([]byte) (int, error)

func (f reader) Read(b []byte) (int, error) { return f(b) }

// hollow reports whether a file has far less on the disk than its size says: a copy would cost what the run did not pay.
func hollow(now fs.FileInfo) bool {
	st, ok := now.Sys().(*syscall.Stat_t)
	return !ok || now.Size() > 1<<20 && st.Blocks*512 < now.Size()/2
}

// roomFor reports whether a twentieth of the disk stays free after so many bytes more.
func roomFor(to *os.Root, bytes int64) bool {
	f, err := to.Open(".")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	return int64(st.Bavail)*int64(st.Bsize)-bytes > int64(st.Blocks)*int64(st.Bsize)/20
}
