//go:build unix

package files

import (
	"crypto/rand"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// exchange swaps two names of one directory.
func (d disk) exchange(dir int, temp, name string) error {
	if !d.noExchange {
		if err := exchange(dir, temp, name); !lacking(err) {
			return err
		}
	}
	return replace(dir, temp, name)
}

// move gives a file another name that must be free.
func (d disk) move(dir int, from, to string) error {
	if !d.noReplaceFlag {
		if err := move(dir, from, to); !lacking(err) {
			return err
		}
	}
	if err := unix.Linkat(dir, from, dir, to, 0); err != nil { // fails when to is taken
		return err
	}
	return unix.Unlinkat(dir, from, 0)
}

// lacking reports whether an error means that the file system lacks the operation.
func lacking(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}

// replace does what exchange does, in three steps, of which the second counts: before it the name
// has the old content, after it the new.
func replace(dir int, temp, name string) error {
	spare := strings.TrimSuffix(temp, tempSuffix) + "-" + rand.Text() + tempSuffix
	if err := unix.Linkat(dir, name, dir, spare, 0); err != nil {
		return err
	}
	if err := unix.Renameat(dir, temp, dir, name); err != nil {
		return errors.Join(err, unix.Unlinkat(dir, spare, 0))
	}
	if err := unix.Renameat(dir, spare, dir, temp); err != nil { // undone: the caller sees all or nothing
		return errors.Join(err, unix.Renameat(dir, spare, dir, name))
	}
	return nil
}
