package bwrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/subpath"
)

func TestRoomMounts(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r := newRoom(t, s)
		dir := filepath.Dir(r.Workspace)
		celltest.MustWrite(t, filepath.Join(dir, "tools/bin/tool"), "#!/bin/sh\necho tool\n", 0o755)
		celltest.MustWrite(t, filepath.Join(dir, "config"), "config\n", 0o644)
		cache := workspaceOf(t, s, filepath.Join(dir, "cache"))
		if err := os.Symlink("tools", filepath.Join(dir, "linked")); err != nil {
			t.Fatal(err)
		}
		r.Mounts = []palyra.Mount{
			{Source: filepath.Join(dir, "linked"), Target: "/home/u/.tools"}, // links are followed first, by the owner's rights
			{Source: filepath.Join(dir, "config"), Target: "/home/agent/.config/tool"},
			{Source: cache, Target: "/home/agent/.cache/tool", Writable: true},
		}
		r.Files = []palyra.RoomFile{
			{Target: "/home/agent/.gitconfig", Text: "[user]\n"},
			{Target: "/etc/tool.conf", Text: "generated\n"},
			{Target: "/etc/ssl/certs/ca-certificates.crt", Text: "ours\n"},
		}
		out := says(t, r, `
			echo ran: $(/home/u/.tools/bin/tool)
			echo config: $(cat /home/agent/.config/tool)
			echo made: $(echo x >/home/agent/.cache/tool/x && echo cache; for f in /home/u/.tools/x /home/agent/.config/tool /etc/tool.conf; do (echo x >$f) 2>/dev/null && echo $f; done)
			echo moved: $(mv /home/agent/.config/tool /home/agent/x 2>/dev/null && echo yes; rm -f /home/agent/.config/tool 2>/dev/null && echo yes)
			echo beside: $(touch /home/agent/.config/beside && echo yes)
			echo files: $(cat /home/agent/.gitconfig /etc/tool.conf /etc/ssl/certs/ca-certificates.crt) $(stat -c %a /home/agent/.gitconfig)
			echo home: $(ls -A /home/u)`)
		for name, want := range map[string]string{
			"ran": "tool", "config": "config", "made": "cache", "moved": "", "beside": "yes", "files": "[user] generated ours 444", "home": ".tools",
		} {
			if got := line(out, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if _, err := os.Stat(filepath.Join(cache, "x")); err != nil {
			t.Error(err)
		}
	})
}

func TestRoomRefusesMounts(t *testing.T) {
	s := celltest.Residents()[0]
	good := newRoom(t, s)
	dir := filepath.Dir(good.Workspace)
	source := workspaceOf(t, s, filepath.Join(dir, "source"))
	inside := workspaceOf(t, s, filepath.Join(good.Workspace, "inside"))
	celltest.MustWrite(t, filepath.Join(dir, "file"), "", 0o644)
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(dir, "all")); err != nil {
		t.Fatal(err)
	}
	to := func(target string) palyra.Mount { return palyra.Mount{Source: source, Target: target} }
	from := func(source string) palyra.Mount { return palyra.Mount{Source: source, Target: "/home/agent/x"} }
	for name, m := range map[string]palyra.Mount{
		"over the workspace":            to(good.Workspace),
		"in the workspace":              to(good.Workspace + "/x"),
		"above the workspace":           to(dir),
		"over everything":               to("/"),
		"relative":                      to("home/agent/x"),
		"not clean":                     to("/home/agent/../x"),
		"with a NUL":                    to("/home/agent/x\x00"),
		"too long":                      to("/home/agent" + strings.Repeat("/"+strings.Repeat("x", 250), 20)),
		"over the home":                 to("/home/agent"),
		"over all homes":                to("/home"),
		"over /tmp":                     to("/tmp"),
		"over /usr":                     to("/usr"),
		"new in /usr":                   to("/usr/share/palyra-not-there"),
		"through a link of the room":    to("/bin/x"),
		"over a link of the room":       to("/bin"),
		"a directory over a file":       to("/usr/bin/env"),
		"in /proc":                      to("/proc/x"),
		"in /sys":                       to("/sys/fs/cgroup"),
		"in /dev":                       to("/dev/x"),
		"over /dev/null":                to("/dev/null"),
		"over /etc":                     to("/etc"),
		"over /etc/ssl":                 to("/etc/ssl"),
		"over generated files":          to("/etc/passwd"),
		"into every program":            to("/etc/ld.so.preload"),
		"missing":                       from(dir + "/missing"),
		"everything":                    from("/"),
		"everything by a link":          from(filepath.Join(dir, "all")),
		"a kernel's directory":          from("/proc/self"),
		"a device":                      from("/dev/null"),
		"a fifo":                        from(filepath.Join(dir, "fifo")),
		"a relative source":             from("source"),
		"a source with a NUL":           from(source + "\x00"),
		"the workspace, writable":       {Source: good.Workspace, Target: "/home/agent/x", Writable: true},
		"in the workspace, writable":    {Source: inside, Target: "/home/agent/x", Writable: true},
		"above the workspace, writable": {Source: dir, Target: "/home/agent/x", Writable: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			r.Mounts = []palyra.Mount{m}
			refused(t, r, palyra.ReasonBadProfile)
		})
	}
	t.Run("two at one place", func(t *testing.T) {
		r := good
		r.Mounts = []palyra.Mount{to("/home/agent/x"), {Source: dir + "/file", Target: "/home/agent/x"}}
		refused(t, r, palyra.ReasonBadProfile)
	})
	t.Run("one in another", func(t *testing.T) {
		r := good
		r.Mounts = []palyra.Mount{to("/home/agent/x"), to("/home/agent/x/y")}
		refused(t, r, palyra.ReasonBadProfile)
		slices.Reverse(r.Mounts)
		refused(t, r, palyra.ReasonBadProfile)
	})
	t.Run("a file in a mount", func(t *testing.T) {
		r := good
		r.Mounts = []palyra.Mount{to("/home/agent/x")}
		r.Files = []palyra.RoomFile{{Target: "/home/agent/x/y"}}
		refused(t, r, palyra.ReasonBadProfile)
	})
	for _, target := range []string{
		good.Workspace + "/.git/config", "/etc/hosts", "/etc/ld.so.preload", "/usr/bin/new", "/usr/bin",
		"/bin/sh", "/proc/version", "/dev/x", "/", "x", "/etc/mtab",
	} {
		t.Run("a file at "+target, func(t *testing.T) {
			r := good
			r.Files = []palyra.RoomFile{{Target: target, Text: "x"}}
			refused(t, r, palyra.ReasonBadProfile)
		})
	}
	if list, err := os.ReadDir(good.Workspace); err != nil || len(list) != 1 {
		t.Errorf("something was left in the workspace: %v, %v", list, err)
	}
}

// What only root can read is not shown to others by root.
func TestRoomMountsByTheOwnersRights(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	s := celltest.OrdinaryResident()
	r := newRoom(t, s)
	closed := filepath.Join(filepath.Dir(r.Workspace), "closed")
	celltest.MustWrite(t, filepath.Join(closed, "dir", "secret"), "secret\n", 0o644)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(r.Workspace), "link")
	if err := os.Symlink(closed+"/dir", link); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{closed + "/dir", link} {
		r.Mounts = []palyra.Mount{{Source: source, Target: "/home/agent/x"}}
		refused(t, r, palyra.ReasonBadProfile)
	}
}

// Property: whatever is let in touches nothing else that is in the room.
func TestRoomPlacesAreApart(t *testing.T) {
	parts := []string{
		"home", "agent", "u", "etc", "ssl", "certs", "tmp", "run", "usr", "bin", "dev", "shm", "proc", "sys", "x", "..", ".",
		"", "hosts",
	}
	rapid.Check(t, func(t *rapid.T) {
		ps := newPlaces([]item{{itemBind, "/usr", "/usr"}, {itemLink, "/bin", "/usr/bin"}, {itemCopy, "/etc/services", ""}})
		before := slices.Clone(*ps)
		var taken []string
		for range rapid.IntRange(1, 6).Draw(t, "n") {
			target := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 4).Draw(t, "path"), "/")
			if ps.take(target, rapid.Bool().Draw(t, "dir")) == "" {
				taken = append(taken, target)
			}
		}
		for i, a := range taken {
			if filepath.Clean(a) != a || subpath.Within("/proc", a) || subpath.Within("/sys", a) || subpath.Within("/bin", a) ||
				(subpath.Within("/dev", a) && !subpath.Within("/dev/shm/", a)) {
				t.Fatalf("%q was taken", a)
			}
			for _, p := range before {
				if subpath.Within(a, p.path) || (p.kind == placeTaken && subpath.Within(p.path, a) && !subpath.Within(cell.RoomShm, a)) {
					t.Fatalf("%q was taken beside %q", a, p.path)
				}
			}
			for _, b := range taken[:i] {
				if subpath.Within(b, a) || subpath.Within(a, b) {
					t.Fatalf("%q and %q were taken", a, b)
				}
			}
		}
	})
}

func TestRoomMountsBelow(t *testing.T) {
	const info = `21 1 0:1 / / rw - ext4 /dev/a rw
22 21 0:2 / /w/s rw shared:1 - ext4 /dev/a rw
23 21 0:2 / /w rw - ext4 /dev/a rw
24 21 0:2 / /ws rw - ext4 /dev/a rw
25 21 0:2 / /w/a\040b\134c rw - ext4 /dev/a rw
26 21 0:2 / /w/s rw - ext4 /dev/a rw
short line

27 21 0:2 / /w/\9\04 rw - ext4 /dev/a rw
`
	want := []string{"/w/\\9\\04", "/w/a b\\c", "/w/s"}
	if got := MountsBelow(info, "/w"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What the kernel escapes comes back; anything else does not make it fail.
func FuzzRoomUnescape(f *testing.F) {
	for _, s := range []string{"", `\040`, `\\`, `\04`, `\400`, `a\012b`, "\\", `\134040`} {
		f.Add(s)
	}
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	f.Fuzz(func(t *testing.T, s string) {
		if got := unescape(escape.Replace(s)); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
		if got := unescape(s); len(got) > len(s) {
			t.Errorf("%q became longer: %q", s, got)
		}
	})
}
