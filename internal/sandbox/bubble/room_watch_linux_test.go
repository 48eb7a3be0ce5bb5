package bubble

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/template"
)

// A room gets a part of what its user may watch, and none where that would be
// nothing.
func TestWatchingOf(t *testing.T) {
	for _, c := range []struct{ host, cgroup, polled cell.Watching }{
		{
			cell.Watching{Instances: 128, Watches: 192_493},
			cell.Watching{Instances: 16, Watches: 24_061},
			cell.Watching{Instances: 16, Watches: 8192},
		},
		{
			cell.Watching{Instances: 8192, Watches: 1 << 20},
			cell.Watching{Instances: 128, Watches: 65_536},
			cell.Watching{Instances: 16, Watches: 8192},
		},
		{
			cell.Watching{Instances: 1 << 31, Watches: 1 << 40},
			cell.Watching{Instances: 128, Watches: 65_536},
			cell.Watching{Instances: 16, Watches: 8192},
		},
		{cell.Watching{Instances: 16, Watches: 80}, cell.Watching{Instances: 2, Watches: 10}, cell.Watching{Instances: 2, Watches: 10}},
		{host: cell.Watching{Instances: 7, Watches: 1 << 20}},
		{host: cell.Watching{Instances: 128, Watches: 7}},
		{host: cell.Watching{}},
		{host: cell.Watching{Instances: -1, Watches: 1 << 20}},
	} {
		if got := watchingOf(c.host, false); got != c.cgroup {
			t.Errorf("%+v: %+v", c.host, got)
		}
		if got := watchingOf(c.host, true); got != c.polled {
			t.Errorf("%+v, polled: %+v", c.host, got)
		}
	}
}

func TestHostWatching(t *testing.T) {
	const fs, own = "/proc/sys/fs/inotify/max_user_", "/proc/sys/user/max_inotify_"
	for name, c := range map[string]struct {
		files map[string]string
		want  cell.Watching
	}{
		"a host": {map[string]string{
			fs + "instances": "128\n", own + "instances": "128\n", fs + "watches": "9000\n",
			own + "watches": "9000\n",
		}, cell.Watching{Instances: 128, Watches: 9000}},
		"a container": {map[string]string{
			fs + "instances": "128\n", own + "instances": "20\n", fs + "watches": "9000\n",
			own + "watches": "2147483647\n",
		}, cell.Watching{Instances: 20, Watches: 9000}},
		"an old one": {map[string]string{fs + "instances": "128\n", fs + "watches": "9000\n"}, cell.Watching{}},
		"nonsense": {
			map[string]string{fs + "instances": "-1\n", own + "instances": "128\n", fs + "watches": "many", own + "watches": "1"},
			cell.Watching{},
		},
		"nothing": {nil, cell.Watching{}},
	} {
		read := func(p string) ([]byte, error) {
			if s, ok := c.files[p]; ok {
				return []byte(s), nil
			}
			return nil, os.ErrNotExist
		}
		if got := hostWatching(read); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What a run may watch is what its room was given, nobody in it can raise that or set
// anything else, and what is promised is what is done.
func TestBackendWatching(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		j := s.job("/bin/sh", "-c", `cat /proc/sys/user/max_inotify_instances /proc/sys/user/max_inotify_watches
			find /proc/sys -type f -writable
			for f in user/max_inotify_watches kernel/hostname kernel/core_pattern vm/drop_caches; do (echo 1 > /proc/sys/$f) 2>/dev/null && echo "$f can be set"; done; exit 0`)
		x := runJob(t, b, j)
		w := b.watching(b.fleet.Groups.Memory == "")
		if w == (cell.Watching{}) {
			t.Skip("UNPROVEN HERE: this kernel bounds no watching")
		}
		if got, want := s.printed(), fmt.Sprintf("%d\n%d", w.Instances, w.Watches); x.Code != 0 || got != want {
			t.Errorf("exit %d: %q, want %q", x.Code, got, want)
		}
		if x.Enforcement.Limits["watches"] != "user_namespace" {
			t.Errorf("%+v", x.Enforcement.Limits)
		}
	})
}

// Where a room could not be bounded the next ones are built without, and say so.
func TestBackendWithoutWatching(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		failed := cell.Report{Kind: cell.ReportFailed, Step: cell.StepWatching, Errno: int(unix.EROFS)}
		if err := b.explain(failed); !errors.Is(err, template.ErrChanged) {
			t.Fatalf("no other room is tried: %v", err)
		}
		s := newSite(t, who)
		x := runJob(t, b, s.job("/usr/bin/python3", "-c",
			`import ctypes; l=ctypes.CDLL(None, use_errno=True); print(l.inotify_init1(0), ctypes.get_errno(), l.fanotify_init(0, 0), ctypes.get_errno())`))
		if x.Code != 0 || s.printed() != "-1 1 -1 1" || x.Enforcement.Limits["watches"] != "refused" {
			t.Errorf("%+v: %s", x, s.printed())
		}
		if e, err := b.Probe(t.Context(), s.job("/bin/true").Limits); err != nil || e.Limits["watches"] != "refused" {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// fanotify stays refused where inotify is not.
func TestBackendRefusesFanotify(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		x := runJob(t, b, s.job("/usr/bin/python3", "-c", `import ctypes
l=ctypes.CDLL(None, use_errno=True); fds=[]
while (fd := l.inotify_init1(0)) >= 0: fds.append(fd)
print(len(fds), ctypes.get_errno(), l.inotify_rm_watch(0, 0) < 0, l.fanotify_init(0, 0), ctypes.get_errno())`))
		w := b.watching(b.fleet.Groups.Memory == "")
		if want := fmt.Sprintf("%d %d True -1 1", w.Instances, unix.EMFILE); x.Code != 0 || strings.TrimSpace(s.printed()) != want {
			t.Errorf("%+v: %q, want %q", x, s.printed(), want)
		}
	})
}
