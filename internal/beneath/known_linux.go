package beneath

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// RemoveKnown is Remove for a directory that most likely has nothing in it but what is known: entries in the order in which
// they can go, directories with a slash behind them. That takes no thread of anybody's, and few looks. Where there is
// anything else, or the entry that would go first is there, it is Remove.
func RemoveKnown(as As, dir int, name string, known []string, first string) error {
	if removeKnown(dir, name, known, first) {
		return nil
	}
	return Remove(as, dir, name, first)
}

func removeKnown(dir int, name string, known []string, first string) bool {
	top, err := OpenIn(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(top) }()
	var st unix.Stat_t
	if err := unix.Fstatat(top, first, &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
		return false
	}
	for _, entry := range known {
		rel, isDir := strings.CutSuffix(entry, "/")
		if err := removeEntry(top, rel, isDir); err != nil && !errors.Is(err, unix.ENOENT) {
			return false
		}
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) == nil
}

// removeEntry removes a file or an empty directory. One that lies deeper must be in a directory of whoever has the one at
// the top that leads there, who could have removed it as well.
func removeEntry(top int, rel string, isDir bool) error {
	flags := 0
	if isDir {
		flags = unix.AT_REMOVEDIR
	}
	above, _, deep := strings.Cut(rel, "/")
	if !deep {
		return unix.Unlinkat(top, rel, flags)
	}
	var whose, st unix.Stat_t
	if err := unix.Fstatat(top, above, &whose, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return InParent(top, rel, func(dir int, name string) error {
		if err := unix.Fstat(dir, &st); err != nil || st.Uid != whose.Uid {
			return errors.Join(err, unix.EPERM)
		}
		return unix.Unlinkat(dir, name, flags)
	})
}
