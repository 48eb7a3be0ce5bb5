//go:build unix

package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openNoFollow opens a key file. A symbolic link is refused, a pipe does not block.
func openNoFollow(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, unsafe(path, "is a symbolic link", "put the file itself there")
	}
	if err != nil {
		return nil, fmt.Errorf("keyring: open key: %w", err)
	}
	return f, nil
}

func checkFile(f *os.File, credential bool) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("keyring: open key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return unsafe(f.Name(), "is not a regular file", "put a key file there")
	}
	return checkOwner(f.Name(), info, credential, 0o600)
}

// checkCredentials looks at the directory that systemd made.
func checkCredentials(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("keyring: open: %w", err)
	}
	if !info.IsDir() {
		return unsafe(path, "is not a directory", "give the directory itself, not a link to it")
	}
	return checkOwner(path, info, true, 0o500)
}

// checkOwner refuses a file that another user owns or can reach. systemd gives a credential to its service by
// owner or, with root as owner, by an access list whose mask shows in the group's read bit; there that bit
// means the service.
func checkOwner(path string, info fs.FileInfo, credential bool, want fs.FileMode) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return unsafe(path, "has no owner that can be checked", "use a local file system")
	}
	owner, others := int(stat.Uid), fs.FileMode(0o077)
	if credential {
		others = 0o027
	}
	if owner != os.Geteuid() && (!credential || owner != 0) {
		return unsafe(path, fmt.Sprintf("belongs to uid %d", owner), fmt.Sprintf("chown %d %s", os.Geteuid(), path))
	}
	if info.Mode().Perm()&others != 0 {
		return unsafe(path, fmt.Sprintf("is open to other users (mode %04o)", info.Mode().Perm()),
			fmt.Sprintf("chmod %04o %s; if others may have read it, rotate the key", want, path))
	}
	return nil
}
