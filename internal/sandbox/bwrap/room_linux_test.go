package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox/celltest"
)

// The arguments are the room. Whoever changes them changes what every run can
// see, so they stand here as text.
func TestRoomArguments(t *testing.T) {
	s := celltest.Residents()[0]
	r := newRoom(t, s)
	cache := workspaceOf(t, s, filepath.Join(filepath.Dir(r.Workspace), "cache"))
	tools := filepath.Join(filepath.Dir(r.Workspace), "tools")
	celltest.MustWrite(t, filepath.Join(tools, "tool"), "", 0o755)
	r.Mounts = []palyra.Mount{
		{Source: tools, Target: "/home/u/.tools"},
		{Source: cache, Target: "/home/agent/.cache/go", Writable: true},
		{Source: tools, Target: "/home/u/.tools"},
	}
	r.Files = []palyra.RoomFile{{Target: "/home/agent/.gitconfig", Text: "[user]\n"}, {Target: "/etc/tool.conf", Text: "tool\n"}}
	items := []item{{itemBind, "/usr", "/usr"}, {itemLink, "/bin", "/usr/bin"}, {itemCopy, "/etc/services", "http 80/tcp\n"}}

	a := &arguments{}
	defer a.cleanup()
	for range 2 {
		a.pass(devNull(t))
	}
	a.add("--info-fd", a.pass(devNull(t)))
	b := &Program{}
	if err := b.arrange(a, r, items); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`
--info-fd 5
--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net
--uid %d --gid %d --hostname palyra --chdir / --new-session --as-pid-1 --cap-add ALL
--ro-bind /usr /usr
--symlink /usr/bin /bin
--perms 0444 --file 6 /etc/services
--proc /proc
--perms 0755 --tmpfs /dev
--dev-bind /dev/full /dev/full
--dev-bind /dev/null /dev/null
--dev-bind /dev/random /dev/random
--dev-bind /dev/urandom /dev/urandom
--dev-bind /dev/zero /dev/zero
--dev-bind-try /dev/tty /dev/tty
--perms 0755 --dir /dev/pts
--symlink pts/ptmx /dev/ptmx
--symlink /proc/self/fd/0 /dev/stdin
--symlink /proc/self/fd/1 /dev/stdout
--symlink /proc/self/fd/2 /dev/stderr
--symlink /proc/self/fd /dev/fd
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
`, s.UID, s.GID, r.Workspace)
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
	r := Room{
		Workspace: "/tmp/a/ws", Tmp: 1 << 30,
		Mounts: []palyra.Mount{
			{Target: "/home/agent/.cache/go"},
			{Target: "/home/u/.tools"},
			{Target: "/home/agent/.cache/go"},
			{Target: "/home/agent2"},
		},
		Files: []palyra.RoomFile{{Target: "/run/x"}, {Target: "/home/agent/.gitconfig"}, {Target: "/etc/x"}},
	}
	want := []cell.Private{
		{Path: "/dev/shm", Mode: 0o1777, Bytes: 1 << 30, Inodes: 1 << 17},
		{Path: "/tmp", Mode: 0o1777, Bytes: 1 << 30, Inodes: 1 << 17, Keep: []string{"/tmp/a/ws"}},
		{Path: "/run", Mode: 0o755, Bytes: 8 << 20, Inodes: 1 << 10, Keep: []string{"/run/x"}},
		{Path: "/home/agent", Mode: 0o700, Bytes: 1 << 30, Inodes: 1 << 17, Keep: []string{"/home/agent/.cache/go", "/home/agent/.gitconfig"}},
	}
	if diff := cmp.Diff(want, r.Private()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, p := range (Room{Tmp: 1}).Private() {
		if p.Inodes < roomFewNames || p.Keep != nil {
			t.Errorf("%+v", p)
		}
	}
}

func TestRoomCommand(t *testing.T) {
	r := newRoom(t, celltest.Residents()[0])
	b := theBwrap(t)
	image, control, info := devNull(t), devNull(t), devNull(t)
	c, err := b.Command(r, image, control, info, "mark-1")
	if err != nil {
		t.Fatal(err)
	}
	if c.Env == nil || len(c.Env) != 0 {
		t.Errorf("the environment is %v: nil would be the daemon's own", c.Env)
	}
	extra := c.Files
	if path := c.Path; path != b.exe() || extra[0] != control || extra[1] != image || extra[2] != info {
		t.Errorf("path %q, descriptors %v", path, extra)
	}
	args := 2 + len(extra)
	want := []string{"bwrap", "--args", fmt.Sprint(args), "--", "/proc/self/fd/4", "inside", "mark-1"}
	if diff := cmp.Diff(want, c.Argv); diff != "" {
		t.Errorf("argv (-want +got):\n%s", diff)
	}
	c.Close()
	for i, f := range extra {
		_, err := f.Stat()
		if gone := err != nil; gone != (i > 2) {
			t.Errorf("descriptor %d (%s) after the clean-up: %v", i+3, f.Name(), err)
		}
	}
	for _, mark := range []string{"", "a b", "a\x00", "--ro-bind", strings.Repeat("x", 65)} {
		if c, err := b.Command(r, image, control, nil, mark); err == nil {
			t.Errorf("the mark %q was taken", mark)
			c.Close()
		}
	}
}

func TestRoomRefusesBadInput(t *testing.T) {
	s := celltest.Residents()[0]
	good := newRoom(t, s)
	for name, spoil := range map[string]func(r *Room){
		"nobody":           func(r *Room) { r.UID = -1 },
		"a uid too large":  func(r *Room) { r.UID = 1 << 32 },
		"a gid too large":  func(r *Room) { r.GID = 1<<32 - 1 },
		"no temporary":     func(r *Room) { r.Tmp = 0 },
		"endless":          func(r *Room) { r.Tmp = 1 << 40 },
		"no workspace":     func(r *Room) { r.Workspace = "" },
		"relative":         func(r *Room) { r.Workspace = "ws" },
		"not clean":        func(r *Room) { r.Workspace += "/../ws" },
		"a NUL":            func(r *Room) { r.Workspace += "\x00" },
		"everything":       func(r *Room) { r.Workspace = "/" },
		"/tmp":             func(r *Room) { r.Workspace = "/tmp" },
		"/home":            func(r *Room) { r.Workspace = "/home" },
		"/home/agent":      func(r *Room) { r.Workspace = "/home/agent" },
		"/usr":             func(r *Room) { r.Workspace = "/usr" },
		"/etc":             func(r *Room) { r.Workspace = "/etc" },
		"/proc/self":       func(r *Room) { r.Workspace = "/proc/self" },
		"/dev":             func(r *Room) { r.Workspace = "/dev" },
		"/sys/kernel":      func(r *Room) { r.Workspace = "/sys/kernel" },
		"a link of a room": func(r *Room) { r.Workspace = "/bin/x" },
		"missing":          func(r *Room) { r.Workspace += "/missing" },
		"too long":         func(r *Room) { r.Workspace += strings.Repeat("/"+strings.Repeat("x", 200), 20) },
		"another's":        func(r *Room) { r.Workspace = "/srv" },
		"many mounts":      func(r *Room) { r.Mounts = make([]palyra.Mount, maxMounts+1) },
		"many files":       func(r *Room) { r.Files = make([]palyra.RoomFile, maxFiles+1) },
		"a large file": func(r *Room) {
			r.Files = []palyra.RoomFile{{Target: "/home/agent/x", Text: strings.Repeat("x", maxFileBytes+1)}}
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
func refused(t *testing.T, r Room, reason palyra.Reason) *palyra.Error {
	t.Helper()
	b := theBwrap(t)
	before := openFiles(t)
	c, err := b.Command(r, devNull(t), devNull(t), nil, "m")
	if err == nil {
		c.Close()
		t.Fatalf("a room was made")
	}
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
