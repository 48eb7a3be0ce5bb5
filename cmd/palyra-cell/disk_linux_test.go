package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A part of every file system of a run stays free, of bytes and of names, whoever
// takes them.
func TestFreePart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("UNPROVEN HERE: a small file system is mounted by root only")
	}
	each(t, func(t *testing.T, w who) {
		for name, script := range map[string]string{
			"bytes": "head -c 14000000 /dev/zero > $0/a; echo fine; head -c 2400000 /dev/zero > $0/b; exec sleep 600",
			"names": "i=0; while [ $i -lt 90 ]; do : > $0/$i; i=$((i+1)); done; echo fine; while [ $i -lt 98 ]; do : > $0/$i; i=$((i+1)); " +
				"done; exec sleep 600",
		} {
			dir := t.TempDir()
			if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the way there
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m,nr_inodes=100,mode=1777"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			s := shell(script)
			s.Argv = append(s.Argv, dir)
			s.Watch.Disk, s.Watch.Disks = 1<<40, []string{dir}
			_, ended, printed := finished(t, w, s)
			if ended.Limit != limitDisk || printed != "fine\n" {
				t.Errorf("%s: %+v %q", name, ended, printed)
			}
		}
	})
}
