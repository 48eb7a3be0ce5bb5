package durable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A lock on a file with the same number on another device is somebody else's, and so
// is one of another process.
func TestLocksAreToldApartByDevice(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 77 fe:00:9 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 fe:00:42 0 EOF\n2: -> FLOCK ADVISORY " +
		"WRITE 77 fe:01:42 0 EOF\nshort\n"
	for _, c := range []struct {
		pid    int
		device string
		inode  uint64
		want   bool
	}{
		{77, "fe:00", 42, true},
		{77, "fe:01", 42, false},
		{77, "00:2a", 42, false},
		{78, "fe:00", 42, false},
		{77, "fe:00", 9, false},
		{77, "fe:00", 4, false},
	} {
		if got := listed(strings.NewReader(locks), c.pid, c.device, c.inode); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The device is the one that the list of locks has, on the file system at hand.
func TestOwnLockIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	h, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Release() }()
	if !holds(os.Getpid(), h.file) || holds(os.Getppid(), h.file) {
		t.Error("the lock is not told to be this process's")
	}
}
