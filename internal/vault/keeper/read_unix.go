//go:build unix

package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// readOwn reads a file that is the daemon's own and closed to others. The checks are made on the open file.
func readOwn(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, &unsafeError{"it is a symbolic link", "put the file itself there"}
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || !ok:
		return nil, &unsafeError{"it is not a regular file", "put the file itself there"}
	case int(st.Uid) != os.Geteuid():
		return nil, &unsafeError{fmt.Sprintf("it belongs to uid %d", st.Uid), fmt.Sprintf("chown %d %s", os.Geteuid(), path)}
	case info.Mode().Perm()&0o077 != 0:
		return nil, &unsafeError{
			fmt.Sprintf("it is open to other users (mode %04o)", info.Mode().Perm()),
			fmt.Sprintf("chmod 0600 %s; if others may have read it: palyra vault rotate", path),
		}
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}
