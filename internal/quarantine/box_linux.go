package quarantine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// ItemName is what an item is called in its box.
const ItemName = "item"

// Box is a directory with one item in it. Nobody can look into one without opening it on purpose: it is the
// daemon's, and of mode 0, whatever the item's own mode is and whoever still has that open.
type Box struct{ fd int }

// NewBox makes a box of a name in a directory. It is open until it is shut.
func NewBox(dir int, name string) (*Box, error) {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
	}
	return &Box{fd}, nil
}

// Put moves an entry of a directory into the box.
func (b *Box) Put(from int, name string) error { return unix.Renameat(from, name, b.fd, ItemName) }

// Descriptor is for what has to be copied into the box, as ItemName.
func (b *Box) Descriptor() int { return b.fd }

// Shut closes the box to everybody.
func (b *Box) Shut() error { return errors.Join(unix.Fchmod(b.fd, 0), unix.Close(b.fd)) }

// Bounds of what is looked at in an item.
const (
	entryCost  = 4 << 10 // bytes that an entry counts for at least: file systems run out of those too
	deepest    = 200     // directories in each other
	mostHashed = 4 << 30
	batch      = 64 << 10
)

// errMuch ends a look.
var errMuch = errors.New("quarantine: more than is looked at")

// Measure is what the item takes on the disk. over: it is more than most, or cannot be told.
func (b *Box) Measure(most int64) (bytes int64, over bool) {
	err := walk(b.fd, ItemName, "", 0, func(_ int, _, _ string, st *unix.Stat_t) error {
		bytes += max(st.Blocks*512, entryCost)
		return nil
	})
	return bytes, err != nil || bytes > most
}

// Budget is what the items of a call may take.
type Budget struct {
	Most int64 // bytes; 0: there is no limit
	Used int64
}

// Weigh finds out what an item takes, and removes one that is more than the budget has
// left: its size and digest stay.
func (w *Budget) Weigh(b *Box, i *Item) (over bool) {
	i.Bytes, over = b.Measure(w.Most - w.Used)
	if over = over && w.Most > 0; over {
		i.Digest, i.Hashed = b.Digest()
		i.Removed = b.Empty() == nil // otherwise it is there, and counts
	}
	if !i.Removed {
		w.Used += i.Bytes
	}
	return over
}

// Loss says of an item that was not kept what it was.
func (i Item) Loss() string { return fmt.Sprintf("%s (%d bytes, %s)", i.Path, i.Bytes, i.Digest) }

// Digest is the SHA-256 of a file's content, or of a directory's files in order of
// their paths, each after a line of its path, mode and size. It covers so many bytes.
func (b *Box) Digest() (digest string, bytes int64) {
	h := sha256.New()
	_ = walk(b.fd, ItemName, "", 0, func(dir int, name, path string, st *unix.Stat_t) error {
		if path != "" {
			fmt.Fprintf(h, "%q %o %d\n", path, st.Mode, st.Size)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return nil
		}
		n, err := content(h, dir, name, mostHashed-bytes)
		if bytes += n; bytes >= mostHashed {
			return errMuch
		}
		return err
	}) // what cannot be read is not in it: that is what the number of bytes is for
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), bytes
}

// content hashes a file.
func content(h hash.Hash, dir int, name string, most int64) (int64, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	return io.Copy(h, io.LimitReader(f, most))
}

// walk visits an entry and what is below it, in order, through no link.
func walk(dir int, name, path string, depth int, visit func(dir int, name, path string, st *unix.Stat_t) error) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := visit(dir, name, path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	if depth == deepest {
		return errMuch
	}
	f, err := enter(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(0)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := walk(int(f.Fd()), n, path+"/"+n, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// enter opens a directory; where its mode forbids it, by its owner's right.
func enter(dir int, name string) (*os.File, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, unix.O_PATH|flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	at, err := unix.Openat(fd, ".", unix.O_RDONLY|flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700); err == nil {
			at, err = unix.Openat(fd, ".", unix.O_RDONLY|flags, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(at), name), nil
}

// Empty removes the item.
func (b *Box) Empty() error { return remove(b.fd, ItemName) }

// remove removes an entry with all that is in it. Directories in it are moved up
// before they are emptied, so that no depth costs anything.
func remove(dir int, name string) error {
	r := removal{passes: mostPasses}
	for try := 0; ; try++ {
		err := unix.Unlinkat(dir, name, 0)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if try == 16 { // somebody has it open and goes on filling it
			return err
		}
		if err := r.clearOut(dir, name); err != nil {
			return err
		}
	}
}

// mostPasses is how many times a removal reads a directory: whoever has one open can fill it for ever.
const mostPasses = 1 << 22

// removal is the work of one.
type removal struct {
	passes int // that are left
	moved  int // directories that came up
}

// pass counts one.
func (r *removal) pass() error {
	if r.passes--; r.passes < 0 {
		return errMuch
	}
	return nil
}

// clearOut empties a directory.
func (r *removal) clearOut(dir int, name string) error {
	top, err := enter(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	if err := unix.Fchmod(int(top.Fd()), 0o700); err != nil {
		return err
	}
	for {
		if err := r.pass(); err != nil {
			return err
		}
		names, err := top.Readdirnames(batch / 256)
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for _, n := range names {
			if unix.Unlinkat(int(top.Fd()), n, 0) == nil || unix.Unlinkat(int(top.Fd()), n, unix.AT_REMOVEDIR) == nil {
				continue
			}
			if err := r.raise(int(top.Fd()), n); err != nil {
				return err
			}
		}
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// raise empties a directory in top: files go, directories come up into top.
func (r *removal) raise(top int, name string) error {
	sub, err := enter(top, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	if err := unix.Fchmod(int(sub.Fd()), 0o700); err != nil {
		return err
	}
	for {
		if err := r.pass(); err != nil {
			return err
		}
		names, err := sub.Readdirnames(batch / 256)
		if len(names) == 0 {
			if !errors.Is(err, io.EOF) {
				return err
			}
			if err = unix.Unlinkat(top, name, unix.AT_REMOVEDIR); errors.Is(err, unix.ENOTEMPTY) {
				err = nil // it is met again
			}
			return err
		}
		for _, n := range names {
			if unix.Unlinkat(int(sub.Fd()), n, 0) == nil || unix.Unlinkat(int(sub.Fd()), n, unix.AT_REMOVEDIR) == nil {
				continue
			}
			if err := r.moveUp(top, int(sub.Fd()), n); err != nil {
				return err
			}
		}
		if _, err := sub.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// moveUp moves a directory into top, under a name that is free.
func (r *removal) moveUp(top, sub int, name string) error {
	for {
		if err := r.pass(); err != nil {
			return err
		}
		r.moved++
		err := unix.Renameat2(sub, name, top, ".up-"+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		switch {
		case errors.Is(err, unix.EEXIST):
		case errors.Is(err, unix.EACCES):
			f, err := enter(sub, name)
			if err != nil {
				return err
			}
			err = errors.Join(unix.Fchmod(int(f.Fd()), 0o700), f.Close())
			if err != nil {
				return err
			}
		case errors.Is(err, unix.ENOENT):
			return nil
		default:
			return err
		}
	}
}
