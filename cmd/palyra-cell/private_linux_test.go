package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// A private place is empty but for what is kept, of the given mode, and ends at its
// bytes and at its names. What is kept, a directory and a file here, is what it
// was, and is sealed as it would be elsewhere.
func TestPrivate(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w, "file", "sealed")
		r := plain(dir)
		r.Private = []cell.Private{
			{Path: "/tmp", Mode: 0o1777, Bytes: 1 << 20, Inodes: 40, Keep: []string{dir, mirror}},
			{Path: "/dev/shm", Mode: 0o700, Bytes: 4096, Inodes: 3},
		}
		r.Seals = seals(t, dir, map[string]bool{"sealed": true}, "sealed")
		out := inRoom(t, w, r, `find /tmp -type f | grep -v '^'$PWD/ | grep -vx `+mirror+`; ls; cat file; echo; test -x `+mirror+` && echo mirror
			echo new > file; for c in 'echo x > sealed' 'mv sealed away' 'echo x > `+mirror+`' 'rm `+mirror+`' 'mv '$PWD' away' 'umount /tmp' 'mount -o remount,nr_inodes=0 /tmp'; do
				if (eval "$c") 2>/dev/null; then echo "WORKED: $c"; fi
			done
			stat -c '%a %u' /tmp /dev/shm; id -u; df --output=size,itotal -B1 /tmp /dev/shm | tail -n +2 | tr -s ' ' | sed 's/^ //'
			n=0; while (: > /tmp/f$n) 2>/dev/null; do n=$((n+1)); done; test $n -gt 10 && test $n -lt 40 && echo some
			(: > /dev/shm/1; : > /dev/shm/2; : > /dev/shm/3) 2>/dev/null || ls /dev/shm; grep ' /tmp tmpfs' /proc/self/mounts | tail -n 1 | grep -c nosuid,nodev`)
		owner := "1000"
		if w.uid != 0 {
			owner = strconv.Itoa(w.uid)
		}
		want := "file\nsealed\nfirst file\nmirror\n1777 " + owner + "\n700 " + owner + "\n" + owner + "\n1048576 40\n4096 3\nsome\n1\n2\n1\n"
		if out != want {
			t.Errorf("%q, want %q", out, want)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "new\n" {
			t.Errorf("outside, the file is %q, %v", b, err)
		}
	})
}

// A place that is not there, or something to keep that is no mount, is a room that
// cannot be.
func TestPrivateFails(t *testing.T) {
	dir := workspace(t, me, "sub/")
	if err := os.Symlink("sub", filepath.Join(dir, "way")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		place cell.Private
		errno unix.Errno
	}{
		"missing":       {cell.Private{Path: "/not/there"}, unix.ENOENT},
		"a link":        {cell.Private{Path: dir + "/way/x"}, unix.ELOOP},
		"no mount":      {cell.Private{Path: "/tmp", Keep: []string{dir + "/sub"}}, unix.EINVAL},
		"missing mount": {cell.Private{Path: "/tmp", Keep: []string{"/tmp/not/there"}}, unix.ENOENT},
		"no names left": {cell.Private{Path: "/tmp", Keep: []string{dir}}, unix.ENOSPC},
	} {
		r := plain(dir)
		r.Private = []cell.Private{c.place}
		r.Private[0].Mode, r.Private[0].Bytes, r.Private[0].Inodes = 0o755, 4096, 1
		if _, first, _ := tryRoom(t, me, r); first.Kind != cell.ReportFailed || first.Step != "private" || unix.Errno(first.Errno) != c.errno {
			t.Errorf("%s: %+v", name, first)
		}
	}
}

// Doors with a path are in the room's own /run, not in the one below it.
func TestPrivateDoors(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		r := plain(workspace(t, w))
		r.Private = []cell.Private{{Path: "/run", Mode: 0o755, Bytes: 1 << 20, Inodes: 16}}
		r.Listeners = []cell.Listener{{Path: "/run/palyra/run/agent.sock"}, doorAt("127.0.0.1:3128")}
		if out := inRoom(t, w, r, "ls /run; stat -c %F /run/palyra/run/agent.sock"); out != "palyra\nsocket\n" {
			t.Errorf("%q", out)
		}
	})
}
