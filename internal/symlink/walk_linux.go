package symlink

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// walk goes a path from the root on. It returns the last directory's identity, where the whole path is there.
func walk(path string, closed []ident) (end End, last ident, there bool) {
	at, rest, hops := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		var st unix.Statx_t
		if end.Missing || look(next, &st) != nil {
			end.Missing, at = true, next
			continue
		}
		here := ident{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
		end.Proc = end.Proc || next == "/proc" || st.Ino == procRoot && isProc(next)
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at, last = next, here
			end.Closed = end.Closed || slices.Contains(closed, here)
			continue
		}
		to, ok := readlink(next)
		if hops++; !ok || hops > maxHops {
			end.Missing, at = true, next
			continue
		}
		if strings.HasPrefix(to, "/") {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	end.Path = at
	return end, last, !end.Missing
}

// look asks about a path itself, of what the kernel knows without waiting.
func look(path string, st *unix.Statx_t) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	for {
		if err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_TYPE|unix.STATX_INO, st); err != unix.EINTR {
			return err
		}
	}
}

// procRoot is the number of the top directory of every /proc.
const procRoot = 1

func isProc(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == unix.PROC_SUPER_MAGIC
}

func readlink(path string) (string, bool) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(path, buf)
	return string(buf[:max(n, 0)]), err == nil && n > 0
}
