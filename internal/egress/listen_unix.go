//go:build unix

package egress

import (
	"os"
	"syscall"
)

// listen makes a socket listen, whether or not its maker has done so.
func listen(f *os.File, backlog int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), backlog) }); err != nil {
		return err
	}
	return failed
}
