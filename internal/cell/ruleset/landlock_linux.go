package ruleset

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ScopeABI is the first Landlock version that can scope signals.
const ScopeABI = 6

// fileAccess are the rights that apply to a file that is no directory; the kernel refuses a rule
// that gives a file any other.
const fileAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX

// ABI is the kernel's Landlock version; 0: the kernel has no Landlock.
func ABI() int {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(v)
}

// New asks the kernel for a ruleset. A kernel that does not know one of the bits refuses, and so do we.
func New(fs, net, scoped uint64) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fs, Handled_access_net: net, Scoped: scoped}
	size := unsafe.Offsetof(attr.Quiet_access_fs) // later fields are newer than the ABI we use
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	runtime.KeepAlive(&attr)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

// Open opens path for reference only; with plain it follows no links.
func Open(path string, plain bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if plain {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	return unix.Openat2(unix.AT_FDCWD, path, &how)
}

// Allow adds a rule: access below the file or directory that path names now.
func Allow(ruleset int, path string, access uint64, plain bool) error {
	fd, err := Open(path, plain)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return allowFile(ruleset, fd, access)
}

// allowFile is Allow for what a descriptor refers to.
func allowFile(ruleset, fd int, access uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileAccess
	}
	// The kernel's struct is packed. A pointer to Go's, which has padding only at its end, reads the same.
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)),
		0, 0, 0)
	runtime.KeepAlive(&attr)
	if e != 0 {
		return e
	}
	return nil
}

// Restrict puts the calling thread, and everything it will start, below ruleset.
func Restrict(ruleset int) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
	return e
}
