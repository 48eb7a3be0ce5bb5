//go:build linux || darwin

package durable

import (
	"fmt"
	"os"
	"syscall"
)

// Free returns how many bytes we can still write where path is.
func Free(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("durable: free: %w", err)
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 { // what is kept back is root's
		blocks = st.Bfree
	}
	return int64(blocks) * int64(st.Bsize), nil
}
