//go:build unix

package client

import (
	"os"
	"syscall"

	"palyra"
)

// ownSocket refuses a socket that another user put where the daemon's should be: that user would
// get everything we send.
func ownSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return noDaemon(path, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode().Type() != os.ModeSocket || !ok || (int(st.Uid) != os.Geteuid() && st.Uid != 0) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s is not a socket of your own", path).
			WithRemedy("find out who made it, and remove it")
	}
	return nil
}
