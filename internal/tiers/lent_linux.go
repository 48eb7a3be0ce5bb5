package tiers

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// textFile returns a file in memory that nobody can change.
func textFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("palyra-ca", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("tiers: lend: %w", err)
	}
	f := os.NewFile(uintptr(fd), "palyra-ca")
	if _, err = f.Write(text); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("tiers: lend: %w", err)
	}
	return f, nil
}
