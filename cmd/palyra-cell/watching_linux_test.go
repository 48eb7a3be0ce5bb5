package main

import (
	"os"
	"testing"

	"palyra/internal/cell"
)

// machineLimits are what the machine allows everybody.
func machineLimits(t *testing.T) (all string) {
	t.Helper()
	for _, p := range []string{
		cell.InstancesPath, cell.WatchesPath, "/proc/sys/fs/inotify/max_user_instances",
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
