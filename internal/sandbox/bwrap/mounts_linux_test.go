package bwrap

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The list shows what is mounted now, though it is read only when the kernel says that it changed.
func TestMountsAreThoseOfNow(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root mounts")
	}
	runtime.LockOSThread() // not unlocked: the thread ends with its namespace
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var m Mounts
	if err := m.openAt("/proc/thread-self/mountinfo"); err != nil { // of this thread
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	shows := func(want bool) {
		t.Helper()
		for range 3 {
			text, err := m.Text()
			if err != nil || strings.Contains(text, " "+dir+" ") != want {
				t.Fatalf("shows it: %v, %v", !want, err)
			}
		}
	}
	m.text = "old"
	if text, err := m.Text(); err != nil || text != "old" {
		t.Errorf("read though nothing changed: %.40q, %v", text, err)
	}
	for range 3 {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		shows(true)
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
		shows(false)
	}
}
