package confine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
)

// TestSystemTable: nothing private may be readable because it lies below
// something that is.
func TestSystemTable(t *testing.T) {
	for _, g := range system {
		for _, p := range g.paths {
			for _, secret := range strings.Fields(`/etc/shadow /etc/gshadow /etc/ssh /etc/ssl/private /etc/sudoers /etc/sudoers.d /root /home /var/lib /run /tmp
				/proc/1 /proc/kcore /proc/sys/kernel/core_pattern /dev/mem /dev/shm /dev/pts /sys/fs/cgroup /sys/kernel/debug /boot /mnt /media /srv`) {
				if p == secret || strings.HasPrefix(secret, p+"/") {
					t.Errorf("%s shows %s", p, secret)
				}
			}
			if g.access&^cells.ToList&^unix.LANDLOCK_ACCESS_FS_EXECUTE != 0 && !strings.HasPrefix(p, "/dev/") {
				t.Errorf("%s can be changed", p)
			}
		}
	}
}

func TestSystemRules(t *testing.T) {
	dir := t.TempDir()
	dir, _ = filepath.EvalSymlinks(dir)
	for _, d := range []string{"usr/bin", "etc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/etc/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/bin", dir+"/bin"); err != nil {
		t.Fatal(err)
	}
	rules := systemRules([]landlockRule{
		{cells.ToRun, []string{dir + "/usr", dir + "/bin", dir + "/missing"}},
		{cells.ToList, []string{dir + "/etc/file", dir + "/usr/bin", "/proc/self"}},
		{cells.ToTalk, []string{dir + "/usr"}},
	}, nil, 4)
	got := map[string]uint64{}
	for _, r := range rules {
		got[r.Path] |= r.Access
		if !r.Optional {
			t.Errorf("%s must be there", r.Path)
		}
	}
	if len(rules) != 4 || got[dir+"/etc/file"] != unix.LANDLOCK_ACCESS_FS_READ_FILE || got["/proc/self"] != cells.ToList {
		t.Errorf("%+v", rules)
	}
	if got[dir+"/usr"]&unix.LANDLOCK_ACCESS_FS_IOCTL_DEV != 0 {
		t.Error("a right that ABI 4 does not know")
	}
}

func TestLandlockOfAJob(t *testing.T) {
	s := newStage(t)
	j := s.job("/bin/sh")
	defer j.CloseFiles()
	for abi, scoped := range map[int]bool{1: false, 3: false, 4: false, 6: true} {
		l, err := landlock(j, nil, abi, false)
		if err != nil {
			t.Fatal(err)
		}
		if (l.Scoped != 0) != scoped || (l.Net != 0) != (abi >= 4) || l.FS != cells.Handled(abi) {
			t.Errorf("abi %d: %+v", abi, l)
		}
		for _, r := range l.Rules {
			if r.Optional || r.Access&^l.FS != 0 || r.Access == 0 {
				t.Errorf("abi %d: %+v", abi, r)
			}
		}
	}
	if _, err := landlock(sandbox.Job{Workspace: "/nowhere", Private: s.private, Path: "/bin/sh"}, nil, 7, false); err == nil {
		t.Error("a workspace that is not there")
	}
}

// TestRulesMadeAhead: they count while each path still names the same file, and
// for a while only: /proc forgets its files unseen.
func TestRulesMadeAhead(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "palyra-rules-") // in no directory that others change all the time
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "file")
	write := func() {
		if err := os.WriteFile(file+".new", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write()
	rules := []cell.Rule{{Path: file, Access: 4}, {Path: "/proc/cpuinfo", Access: 4}}
	k := &keeper{b: &Driver{mounts: newMounts()}}
	defer k.b.mounts.close()
	if !k.anew() {
		t.Error("nothing was made ahead")
	}
	k.rules, k.ahead, k.since = rules, identities(rules), time.Now()
	if k.anew() {
		t.Error("nothing has changed")
	}
	k.since = time.Now().Add(-aheadFor - time.Second)
	if !k.anew() {
		t.Error("it is too long ago")
	}
	k.since = time.Now()
	write()
	if !k.anew() {
		t.Error("the file was replaced")
	}
	if lookAt(k.b.mounts, rules) != nil {
		t.Error("a directory that has just changed stands for its files")
	}
	settled := func() (s *sight) {
		celltest.Until(t, "the directories have settled", func() bool { s = lookAt(k.b.mounts, rules); return s != nil })
		return s
	}
	k.sight, k.ahead = settled(), nil
	if k.anew() {
		t.Error("no directory has changed")
	}
	write()
	if !k.anew() {
		t.Error("the file was replaced, and its directory says so")
	}
	k.sight = settled()
	if os.Geteuid() == 0 {
		if err := unix.Mount(file, file, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Unmount(file, unix.MNT_DETACH) }()
		if !k.anew() {
			t.Error("the file was mounted over")
		}
	}
	if k.b.mounts.close(); !k.anew() {
		t.Error("mounts are not known, and nothing else was looked at")
	}
	s := newStage(t)
	j := s.job("/bin/sh")
	defer j.CloseFiles()
	for _, anew := range []bool{false, true} {
		l, err := landlock(j, rules, 7, anew)
		if err != nil {
			t.Fatal(err)
		}
		if (l.Rules[0] != rules[0]) != anew || !slices.Contains(l.Rules, rules[0]) || !slices.Contains(l.Rules, rules[1]) {
			t.Errorf("anew %v: %+v", anew, l.Rules)
		}
	}
}
