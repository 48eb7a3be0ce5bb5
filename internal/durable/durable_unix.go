//go:build unix

package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func syncDir(d *os.File) error { return d.Sync() }

// Held is a lock that this process holds.
type Held struct{ file *os.File }

// lockTries bounds how often a lock file that vanishes under us is made anew.
const lockTries = 16

// Lock takes the lock at path, making the file if need be. When another process holds it the error is a
// *LockedError. The kernel drops the lock when the process ends however it ends, so a crash never leaves a lock
// behind. The file itself stays: removing it would let two processes hold "the" lock.
func Lock(path string) (*Held, error) {
	for range lockTries {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("durable: lock: %w", err)
		}
		same, err := flock(f, path)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if same {
			if err := note(f); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return &Held{file: f}, nil
		}
		_ = f.Close() // someone removed the file between open and lock
	}
	return nil, fmt.Errorf("durable: lock: %s keeps changing", path)
}

// flock locks f and reports whether path still names it.
func flock(f *os.File, path string) (bool, error) {
	fi, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("durable: lock: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return false, &UnsafeError{Path: path, Why: "it is not a regular file", Fix: "rm " + path}
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, &LockedError{Path: path, PID: holder(f)}
	}
	if err != nil {
		return false, fmt.Errorf("durable: lock: %w", err)
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(fi, now), nil
}

// note leaves our number for whoever finds the lock taken.
func note(f *os.File) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return fmt.Errorf("durable: lock: %w", err)
	}
	return nil
}

func holder(f *os.File) int {
	b := make([]byte, 16)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 1 {
		return 0
	}
	return pid
}

// Holder finds the process that holds the lock at path, nil when nobody does. The number in the file is believed
// only where the system says the same: it may be that of a process long gone, whose number another one has by now.
// What is returned stays the process that was looked at.
func Holder(path string) (*os.Process, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("durable: holder: %w", err)
	}
	defer func() { _ = f.Close() }() // with what is locked here
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, err
	}
	pid := holder(f)
	p, err := os.FindProcess(pid) // before it is looked at: a handle on one process, not on a number
	if pid == 0 || err != nil {
		return nil, &UnprovenError{Path: path, PID: pid}
	}
	if !holds(pid, f) {
		_ = p.Release()
		return nil, &UnprovenError{Path: path, PID: pid}
	}
	return p, nil
}

// Release gives the lock up. The process may take it again.
func (h *Held) Release() error {
	_ = h.file.Truncate(0) // the number is a courtesy
	if err := h.file.Close(); err != nil {
		return fmt.Errorf("durable: release: %w", err)
	}
	return nil
}

// PrivateDir makes path, and its missing parents, for the owner only and checks it with CheckPrivate.
func PrivateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("durable: private dir: %w", err)
	}
	return CheckPrivate(path)
}

// CheckPrivate refuses, with an *UnsafeError, a file or directory that is a link, belongs to another user, or that
// group or others can read or change; and one whose parents would let somebody else put another in its place.
func CheckPrivate(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("durable: check: %w", err)
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("durable: check: %w", err)
	}
	switch {
	case fi.Mode()&os.ModeSymlink != 0:
		return &UnsafeError{Path: path, Why: "it is a symbolic link", Fix: "give the real path"}
	case !fi.Mode().IsRegular() && !fi.IsDir():
		return &UnsafeError{Path: path, Why: "it is neither a file nor a directory", Fix: "rm " + path}
	case ownerOf(fi) != os.Geteuid():
		return &UnsafeError{
			Path: path, Why: fmt.Sprintf("it belongs to uid %d, not to us", ownerOf(fi)),
			Fix: fmt.Sprintf("chown %d %s", os.Geteuid(), path),
		}
	case fi.Mode().Perm()&0o077 != 0:
		return &UnsafeError{Path: path, Why: "group or others may use it", Fix: "chmod go-rwx " + path}
	}
	return checkParents(filepath.Dir(path))
}

// checkParents walks the real parents up to the root. A sticky directory such as
// /tmp is fine: others cannot rename what is ours in it.
func checkParents(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("durable: check: %w", err)
	}
	for {
		fi, err := os.Lstat(dir)
		if err != nil {
			return fmt.Errorf("durable: check: %w", err)
		}
		if uid := ownerOf(fi); uid != 0 && uid != os.Geteuid() {
			return &UnsafeError{
				Path: dir, Why: fmt.Sprintf("it belongs to uid %d, who could replace what is in it", uid),
				Fix: "use a directory of your own",
			}
		}
		if othersMayWrite(fi) && fi.Mode()&os.ModeSticky == 0 {
			return &UnsafeError{Path: dir, Why: "group or others may write to it", Fix: "chmod go-w " + dir}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// othersMayWrite reports write permission for anyone but the owner. A group of the owner's own, with the owner's
// number, is the owner: many systems give each user one and make directories group-writable.
func othersMayWrite(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if ok && st.Uid == st.Gid && st.Uid != 0 {
		return fi.Mode().Perm()&0o002 != 0
	}
	return fi.Mode().Perm()&0o022 != 0
}

func ownerOf(fi os.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1 // unknown: nobody's, so it is refused
}
