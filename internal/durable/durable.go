// Package durable does the few file operations on which Palyra's own state rests: writing a file so that a crash
// leaves the old one or the new one, holding a lock that only one daemon can hold, and refusing state that someone
// else could have changed.
//
// Words: a write is durable when file and directory entry are both on disk; a
// lock is held until Release or the end of the process, whichever comes first; a
// path is private when nobody but its owner and root can read or change it.
//
// It uses the standard library only and knows none of Palyra's words: callers
// turn its errors into theirs. It is for files of the daemon itself; files of a
// workspace, where others write at the same time, are tool/files' matter.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces path with data, or makes it. After a crash at any moment path holds the old content or the new
// one, never a mixture; after a nil return it holds the new one. A failed write leaves nothing behind.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return Write(path, perm, true, func(w io.Writer) error {
		if _, err := w.Write(data); err != nil {
			return fmt.Errorf("durable: write: %w", err)
		}
		return nil
	})
}

// Write is WriteFile of what fill writes. Without replace a file that is there stays as it is: the error is fs.ErrExist.
func Write(path string, perm os.FileMode, replace bool, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	tmp := filepath.Join(dir, "."+filepath.Base(path)+"."+rand.Text()+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("durable: write: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	if err = fill(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Chmod(perm); err == nil { // whatever the umask says
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("durable: write: %w", err)
	}
	if err = place(tmp, path, replace); err != nil {
		return fmt.Errorf("durable: write: %w", err)
	}
	return SyncDir(dir)
}

// place gives a file its name.
func place(tmp, path string, replace bool) error {
	if replace {
		return os.Rename(tmp, path)
	}
	err := os.Link(tmp, path) // which never replaces
	switch {
	case err == nil:
		return os.Remove(tmp)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	if _, err := os.Lstat(path); err == nil { // no file has two names there
		return &fs.PathError{Op: "write", Path: path, Err: fs.ErrExist}
	}
	return os.Rename(tmp, path)
}

// SyncDir makes the names in a directory durable: a file that was made, renamed
// or removed is so on disk when it returns nil.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("durable: sync: %w", err)
	}
	if err := errors.Join(syncDir(d), d.Close()); err != nil {
		return fmt.Errorf("durable: sync: %w", err)
	}
	return nil
}

// UnsafeError says that a path is open to others, and how to close it.
type UnsafeError struct {
	Path string
	Why  string // "group or others may write to it"
	Fix  string // a command that mends it
}

// Error implements error.
func (e *UnsafeError) Error() string { return fmt.Sprintf("durable: %s: %s", e.Path, e.Why) }

// UnprovenError says that a lock is held and that it cannot be shown which process holds it.
type UnprovenError struct {
	Path string
	PID  int // the number that stands in the file; 0: none
}

// Error implements error.
func (e *UnprovenError) Error() string {
	return fmt.Sprintf("durable: %s is locked, and it cannot be shown that process %d holds it", e.Path, e.PID)
}

// LockedError says that another process holds the lock.
type LockedError struct {
	Path string
	PID  int // 0 when the holder left no number
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("durable: %s is locked by another process", e.Path)
	}
	return fmt.Sprintf("durable: %s is locked by process %d", e.Path, e.PID)
}
