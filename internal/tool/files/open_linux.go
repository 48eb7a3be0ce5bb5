package files

import (
	"sync"

	"golang.org/x/sys/unix"
)

// oPath opens a directory for reference only.
const oPath = unix.O_PATH

// maxRaces is how often an open is repeated because of concurrent renames.
const maxRaces = 64

// hasOpenat2 is asked once: some containers filter the call out.
var hasOpenat2 = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

// openBeneath opens rel below dir, through no link and never outside.
func openBeneath(dir int, rel string, flags int) (int, error) {
	return openHow(dir, rel, flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS|unix.RESOLVE_NO_SYMLINKS)
}

// openNoLinks opens an absolute path through no link.
func openNoLinks(dir int, abs string, flags int) (int, error) {
	return openHow(dir, abs, flags, unix.RESOLVE_NO_MAGICLINKS|unix.RESOLVE_NO_SYMLINKS)
}

func openHow(dir int, p string, flags int, resolve uint64) (int, error) {
	if !hasOpenat2() {
		return walkOpen(dir, p, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	for races := 0; ; {
		fd, err := unix.Openat2(dir, p, &how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && races < maxRaces:
			races++
		default:
			return fd, err
		}
	}
}

// sameMount reports whether two open files are on one mount; true where the kernel does not tell,
// because it serves for a remark only.
func sameMount(a, b int) bool {
	x, y := mountOf(a), mountOf(b)
	return x == 0 || y == 0 || x == y
}

// mountOf is the id of the mount that an open file is on; 0: unknown.
func mountOf(fd int) uint64 {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return st.Mnt_id
}

func confinement() string {
	if hasOpenat2() {
		return "openat2_beneath"
	}
	return "openat_nofollow"
}
