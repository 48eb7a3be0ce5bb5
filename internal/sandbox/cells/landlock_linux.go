package cells

import (
	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The first Landlock ABI versions with a feature.
const (
	landlockRefer    = 2
	landlockTruncate = 3
	landlockNet      = 4
	landlockIoctl    = 5
	LandlockScope    = 6 // signals and abstract sockets
)

// Sets of rights. They must be reduced to those that the ABI knows (Handled) and, for a path that
// is not a directory, to those of files (OfFiles).
const (
	ToList  uint64 = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	ToRun          = ToList | unix.LANDLOCK_ACCESS_FS_EXECUTE
	ToWrite        = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	ToWork         = ToRun | ToWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER // neither devices nor sockets
	ToTalk   = ToWrite | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	OfFiles  = unix.LANDLOCK_ACCESS_FS_EXECUTE | ToTalk
	ofDirABI = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 // every right of ABI 1
)

// Handled is every right to files that an ABI knows. All are denied unless a rule gives them.
func Handled(abi int) uint64 {
	all := uint64(ofDirABI)
	for right, from := range map[uint64]int{
		unix.LANDLOCK_ACCESS_FS_REFER:     landlockRefer,
		unix.LANDLOCK_ACCESS_FS_TRUNCATE:  landlockTruncate,
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV: landlockIoctl,
	} {
		if abi >= from {
			all |= right
		}
	}
	return all
}

// Masks is a ruleset that denies everything the ABI knows of.
func Masks(abi int) cell.Landlock {
	l := cell.Landlock{FS: Handled(abi)}
	if abi >= landlockNet {
		l.Net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= LandlockScope {
		l.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return l
}
