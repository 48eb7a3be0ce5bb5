package beneath

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// MoveTo gives an entry of a directory another name, or a name in another directory, where there is nothing: else the
// error is EEXIST. A file system that cannot look and rename at once does one after the other.
func MoveTo(from int, name string, to int, as string) error {
	err := unix.Renameat2(from, name, to, as, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	_, missing, err := LookAt(to, as)
	if err == nil && !missing {
		err = unix.EEXIST
	}
	if err != nil {
		return err
	}
	return unix.Renameat(from, name, to, as)
}

// Leads reports whether a path of at most so many bytes leads to something in a directory, and not out of it. The empty
// one is the directory.
func Leads(path string, most int) bool {
	if path == "" {
		return true
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return false
		}
	}
	return len(path) <= most
}
