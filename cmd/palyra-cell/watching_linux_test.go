package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// machineLimits are what the machine allows everybody.
func machineLimits(t *testing.T) (all string) {
	t.Helper()
	for _, p := range []string{
		instancesPath, watchesPath, "/proc/sys/fs/inotify/max_user_instances",
		"/proc/sys/fs/inotify/max_user_watches",
	} {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Skip("UNPROVEN HERE: the kernel has no such limits: ", err)
		}
		all += string(b)
	}
	return all
}

// The limits of a room are its own: nobody in it can raise them, and those of the
// machine are as before.
func TestWatchingLimits(t *testing.T) {
	before := machineLimits(t)
	t.Cleanup(func() {
		if after := machineLimits(t); after != before {
			t.Errorf("the limits of the machine are %q, and were %q", after, before)
		}
	})
	eachRoom(t, func(t *testing.T, w who) {
		r := plain(workspace(t, w))
		r.ReadOnly, r.Watching = []string{"/proc/sys"}, cell.Watching{Instances: 5, Watches: 40}
		out := inRoom(t, w, r, `for f in instances watches; do
			cat /proc/sys/user/max_inotify_$f; (echo 100 > /proc/sys/user/max_inotify_$f) 2>/dev/null && echo raised
		done; exit 0`)
		if out != "5\n40\n" {
			t.Errorf("inside: %q", out)
		}
	})
}

// Where the limit cannot be set the room does not come about: its daemon decides.
func TestWatchingThatCannotBeBounded(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w)
		args := bwrapArgs(w, dir)
		for i, a := range args {
			if a == "--tmpfs" { // after /proc is there
				args = append(args[:i:i], append([]string{"--ro-bind", "/proc/sys", "/proc/sys"}, args[i:]...)...)
				break
			}
		}
		conn, c, _ := enterRoom(t, w, dir, args...)
		h := &held{t: t, conn: conn, cmd: c}
		r := plain(dir)
		r.Watching = cell.Watching{Instances: 1, Watches: 1}
		h.build(r)
		if got := h.next(); got.Kind != cell.ReportFailed || got.Step != cell.StepWatching || unix.Errno(got.Errno) != unix.EROFS {
			t.Errorf("%+v", got)
		}
	})
}

// Only a namespace of one user has a limit that is the room's alone.
func TestOfOne(t *testing.T) {
	for ids, want := range map[string]bool{
		"      1000          0          1\n":                    true,
		"         0          0 4294967295\n":                    false,
		"      1000       1000          2\n":                    false,
		"      1000       1000          1\n      1001 1001 1\n": false,
		"": false, "1000 1000\n": false, "1000 1000 1 1\n": false,
	} {
		if ofOne(ids) != want {
			t.Errorf("%q: %v", ids, !want)
		}
	}
	if os.Getuid() == 0 { // the machine's own limits are not touched
		if text, err := boundWatching(cell.Watching{Instances: 1 << 30, Watches: 1 << 30}); !errors.Is(err, errShared) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is no limit of the kernel's is not written to.
func TestLowerToOnlyInProc(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limit")
	if err := os.WriteFile(path, []byte("100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := lowerTo(path, 5); err == nil {
		t.Error("an ordinary file was taken for a limit")
	}
	if b, _ := os.ReadFile(path); string(b) != "100\n" {
		t.Errorf("%q", b)
	}
}
