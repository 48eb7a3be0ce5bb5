package bubble

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/cell"
)

// The arguments are the room. Whoever changes them changes what every run can
// see, so they stand here as text.
func TestRoomArguments(t *testing.T) {
	s := residents()[0]
	r := newRoom(t, s)
	cache := workspaceOf(t, s, filepath.Join(filepath.Dir(r.workspace), "cache"))
	tools := filepath.Join(filepath.Dir(r.workspace), "tools")
	mustWrite(t, filepath.Join(tools, "tool"), "", 0o755)
	r.mounts = []palyra.Mount{
		{Source: tools, Target: "/home/u/.tools"},
		{Source: cache, Target: "/home/agent/.cache/go", Writable: true},
		{Source: tools, Target: "/home/u/.tools"},
	}
	r.files = []palyra.RoomFile{{Target: "/home/agent/.gitconfig", Text: "[user]\n"}, {Target: "/etc/tool.conf", Text: "tool\n"}}
	items := []roomItem{{itemBind, "/usr", "/usr"}, {itemLink, "/bin", "/usr/bin"}, {itemCopy, "/etc/services", "http 80/tcp\n"}}

	a := &roomArgs{}
	defer a.cleanup()
	for range 2 {
		a.pass(devNull(t))
	}
	a.add("--info-fd", a.pass(devNull(t)))
	b := &bwrap{options: map[string]bool{bwrapNoUsers: true}}
	if err := b.arrange(a, r, items); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`
--info-fd 5
--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net --disable-userns
--uid %d --gid %d --hostname palyra --chdir / --new-session --as-pid-1 --cap-add ALL
--ro-bind /usr /usr
--symlink /usr/bin /bin
--perms 0444 --file 6 /etc/services
--proc /proc --dev /dev
--perms 1777 --dir /dev/shm
--perms 1777 --dir /tmp
--perms 0755 --dir /run
--perms 0700 --dir /home/agent
--perms 0444 --file 7 /etc/passwd
--perms 0444 --file 8 /etc/group
--perms 0444 --file 9 /etc/nsswitch.conf
--perms 0444 --file 10 /etc/hosts
--perms 0444 --file 11 /etc/hostname
--perms 0444 --file 12 /etc/resolv.conf
--symlink /proc/self/mounts /etc/mtab
--bind-fd 13 %s
--ro-bind-fd 14 /home/u/.tools
--bind-fd 15 /home/agent/.cache/go
--perms 0444 --file 16 /home/agent/.gitconfig
--perms 0444 --ro-bind-data 17 /etc/tool.conf
--remount-ro /dev --remount-ro /
`, s.uid, s.gid, r.workspace)
	if diff := cmp.Diff(strings.Fields(want), a.words); diff != "" {
		t.Errorf("the arguments (-want +got):\n%s", diff)
	}
	for n, want := range map[int]string{6: "http 80/tcp\n", 11: "palyra\n", 12: roomResolv, 16: "[user]\n", 17: "tool\n"} {
		if got, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", a.files[n-3].Fd())); err != nil || string(got) != want {
			t.Errorf("descriptor %d: %q, %v; want %q", n, got, err, want)
		}
	}
}

// What the cell lays over a room's own places, and what stays visible in them, is
// the other half of the room.
func TestRoomPrivate(t *testing.T) {
	r := room{
		workspace: "/tmp/a/ws", tmp: 1 << 30,
		mounts: []palyra.Mount{{Target: "/home/agent/.cache/go"}, {Target: "/home/u/.tools"}, {Target: "/home/agent/.cache/go"}, {Target: "/home/agent2"}},
		files:  []palyra.RoomFile{{Target: "/run/x"}, {Target: "/home/agent/.gitconfig"}, {Target: "/etc/x"}},
	}
	want := []cell.Private{
		{Path: "/dev/shm", Mode: 0o1777, Bytes: 1 << 30, Inodes: 1 << 17},
		{Path: "/tmp", Mode: 0o1777, Bytes: 1 << 30, Inodes: 1 << 17, Keep: []string{"/tmp/a/ws"}},
		{Path: "/run", Mode: 0o755, Bytes: 8 << 20, Inodes: 1 << 10, Keep: []string{"/run/x"}},
		{Path: "/home/agent", Mode: 0o700, Bytes: 1 << 30, Inodes: 1 << 17, Keep: []string{"/home/agent/.cache/go", "/home/agent/.gitconfig"}},
	}
	if diff := cmp.Diff(want, r.private()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, p := range (room{tmp: 1}).private() {
		if p.Inodes < roomFewNames || p.Keep != nil {
			t.Errorf("%+v", p)
		}
	}
}

func TestRoomCommand(t *testing.T) {
	r := newRoom(t, residents()[0])
	b := theBwrap(t)
	image, control, info := devNull(t), devNull(t), devNull(t)
	path, argv, env, extra, cleanup, err := b.command(r, image, control, info, "mark-1")
	if err != nil {
		t.Fatal(err)
	}
	if env == nil || len(env) != 0 {
		t.Errorf("the environment is %v: nil would be the daemon's own", env)
	}
	if path != b.exe() || extra[0] != control || extra[1] != image || extra[2] != info {
		t.Errorf("path %q, descriptors %v", path, extra)
	}
	args := 2 + len(extra)
	want := []string{"bwrap", "--args", fmt.Sprint(args), "--", "/proc/self/fd/4", "inside", "mark-1"}
	if diff := cmp.Diff(want, argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	cleanup()
	for i, f := range extra {
		_, err := f.Stat()
		if gone := err != nil; gone != (i > 2) {
			t.Errorf("descriptor %d (%s) after the clean-up: %v", i+3, f.Name(), err)
		}
	}
	for _, mark := range []string{"", "a b", "a\x00", "--ro-bind", strings.Repeat("x", 65)} {
		if _, _, _, _, cleanup, err := b.command(r, image, control, nil, mark); err == nil {
			t.Errorf("the mark %q was taken", mark)
			cleanup()
		}
	}
}

func TestRoomRefusesBadInput(t *testing.T) {
	s := residents()[0]
	good := newRoom(t, s)
	for name, spoil := range map[string]func(r *room){
		"nobody":           func(r *room) { r.uid = -1 },
		"a uid too large":  func(r *room) { r.uid = 1 << 32 },
		"a gid too large":  func(r *room) { r.gid = 1<<32 - 1 },
		"no temporary":     func(r *room) { r.tmp = 0 },
		"endless":          func(r *room) { r.tmp = 1 << 40 },
		"no workspace":     func(r *room) { r.workspace = "" },
		"relative":         func(r *room) { r.workspace = "ws" },
		"not clean":        func(r *room) { r.workspace += "/../ws" },
		"a NUL":            func(r *room) { r.workspace += "\x00" },
		"everything":       func(r *room) { r.workspace = "/" },
		"/tmp":             func(r *room) { r.workspace = "/tmp" },
		"/home":            func(r *room) { r.workspace = "/home" },
		"/home/agent":      func(r *room) { r.workspace = "/home/agent" },
		"/usr":             func(r *room) { r.workspace = "/usr" },
		"/etc":             func(r *room) { r.workspace = "/etc" },
		"/proc/self":       func(r *room) { r.workspace = "/proc/self" },
		"/dev":             func(r *room) { r.workspace = "/dev" },
		"/sys/kernel":      func(r *room) { r.workspace = "/sys/kernel" },
		"a link of a room": func(r *room) { r.workspace = "/bin/x" },
		"missing":          func(r *room) { r.workspace += "/missing" },
		"too long":         func(r *room) { r.workspace += strings.Repeat("/"+strings.Repeat("x", 200), 20) },
		"another's":        func(r *room) { r.workspace = "/srv" },
		"many mounts":      func(r *room) { r.mounts = make([]palyra.Mount, maxMounts+1) },
		"many files":       func(r *room) { r.files = make([]palyra.RoomFile, maxFiles+1) },
		"a large file": func(r *room) {
			r.files = []palyra.RoomFile{{Target: "/home/agent/x", Text: strings.Repeat("x", maxFileBytes+1)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			spoil(&r)
			refused(t, r, "")
		})
	}
}

// refused asserts that no command is made for r, for a reason, and that nothing
// stays open.
func refused(t *testing.T, r room, reason palyra.Reason) *palyra.Error {
	t.Helper()
	b := theBwrap(t)
	before := openFiles(t)
	_, _, _, _, cleanup, err := b.command(r, devNull(t), devNull(t), nil, "m")
	if err == nil {
		cleanup()
		t.Fatalf("a room was made")
	}
	cleanup()
	b.texts.close()
	if now := openFiles(t); now > before+2 { // those of devNull
		t.Errorf("%d files are open, %d before", now-2, before)
	}
	e := palyra.AsError(err)
	if reason != "" && e.Reason != reason {
		t.Errorf("refused by %q (%v), want %q", e.Reason, err, reason)
	}
	return e
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
