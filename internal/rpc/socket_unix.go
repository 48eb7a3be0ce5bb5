//go:build unix

package rpc

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra"
)

// maxSocketPath is the longest path that fits a socket address.
const maxSocketPath = 107

// listen binds a unix socket for the daemon's own user. A socket that a dead daemon left is removed; one that
// somebody listens on is not. Two daemons on one state are kept apart by the state's lock, which is held by now.
func listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "the socket path %s is longer than %d bytes", path, maxSocketPath).
			WithRemedy("set XDG_RUNTIME_DIR or a shorter home")
	}
	if err := checkDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path) // in a 0700 directory: nobody else can connect before the mode is set
	if err != nil {
		return nil, fmt.Errorf("rpc: listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("rpc: listen: %w", err), l.Close())
	}
	return l, nil
}

// checkDir refuses a directory that others could enter.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("rpc: listen: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByUs(dir) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s is not a directory of the daemon's user alone", dir).
			WithRemedy("chmod 700 %s, or remove it", dir)
	}
	return nil
}

func ownedByUs(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && int(st.Uid) == os.Geteuid()
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rpc: listen: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket || !ownedByUs(path) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s is in the way and not a socket of ours", path).
			WithRemedy("move it away")
	}
	if answered(path) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonSecondDaemon, "another daemon listens on %s", path).
			WithRemedy("stop it first: palyra down")
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("rpc: listen: %w", err)
	}
	return nil
}

// answered reports whether anybody accepts connections on the socket. Only a
// refused connection proves that nobody does.
func answered(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Close(fd) }()
	_ = unix.SetNonblock(fd, true)
	return !errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.ECONNREFUSED)
}
