package seal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/exetest"
	"palyra/internal/owner"
	"palyra/internal/quarantine"
)

const (
	testUID = 1002
	roleEnv = "SEAL_TEST_ROLE"
)

// other is a file system that test directories are not on.
func other(t *testing.T, b *box) string {
	t.Helper()
	var a, c unix.Stat_t
	must(t, unix.Stat("/dev/shm", &a))
	must(t, unix.Stat(b.ws, &c))
	if a.Dev == c.Dev {
		t.Skip("UNPROVEN HERE: /dev/shm is not a file system of its own")
	}
	dir, err := os.MkdirTemp("/dev/shm", "h-seal-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// giveAway makes the workspace a user's, where we are root: it returns whose it
// is.
func giveAway(t *testing.T, b *box) int {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	must(t, filepath.WalkDir(b.ws, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, testUID, testUID)
	}))
	return testUID
}

func TestSweepToAnotherFileSystem(t *testing.T) {
	for _, test := range []struct {
		name   string
		before string
	}{{"without a directory of ours", "a"}, {"with one", ".palyra/x"}} {
		t.Run(test.name, func(t *testing.T) {
			b := newBox(t)
			b.quarantine = other(t, b)
			b.file(test.before, "src/")
			uid := giveAway(t, b)
			s := b.scan()
			b.file("src/.git/HEAD", "src/.git/objects/", "src/.git/refs/", ".envrc")
			if test.before == "a" {
				b.file(".palyra/quarantine/evil")
			}
			if uid == testUID {
				must(t, os.Lchown(b.in("src/.git"), uid, uid))
			}
			made := b.sweep(s)
			want := ".envrc src/.git"
			if test.before == "a" {
				want = ".envrc .palyra src/.git"
			}
			if got := strings.Join(made, " "); !sameWords(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
			dir := b.in(filepath.Join(ownDir, quarantineName, string(testCall)))
			f, err := os.Open(filepath.Join(dir, quarantine.IndexName))
			must(t, err)
			defer f.Close()
			items, err := quarantine.ReadIndex(f)
			must(t, err)
			for _, i := range items {
				fi, err := os.Lstat(filepath.Join(dir, i.Item))
				must(t, err)
				if i.Mode&unix.S_IFMT == unix.S_IFDIR && fi.Mode().Perm() != 0 {
					t.Errorf("%s: %s is open", i.Item, i.Path)
				}
			}
			for _, p := range []string{ownDir, ownDir + "/" + quarantineName, ownDir + "/" + quarantineName + "/" + string(testCall) + "/" +
				quarantine.IndexName} {
				var st unix.Stat_t
				must(t, unix.Lstat(b.in(p), &st))
				if int(st.Uid) != uid || st.Mode&0o077 != 0 {
					t.Errorf("%s: uid %d, mode %o", p, st.Uid, st.Mode)
				}
			}
			if again := b.sweep(b.scan()); again != nil {
				t.Errorf("after that: %q", again)
			}
		})
	}
}

func sameWords(a, b string) bool {
	count := func(s string) map[string]int {
		m := map[string]int{}
		for _, w := range strings.Fields(s) {
			m[w]++
		}
		return m
	}
	return fmt.Sprint(count(a)) == fmt.Sprint(count(b))
}

// A run that left a link or a pipe where our directory is to be leads nowhere.
func TestOwnDirectoryIsALink(t *testing.T) {
	for _, trap := range []func(*box){
		func(b *box) { b.file(".palyra -> " + b.out) },
		func(b *box) { must(b.t, unix.Mkfifo(b.in(".palyra"), 0o600)) },
		func(b *box) { b.file(".palyra/", ".palyra/quarantine -> "+b.out) },
	} {
		b := newBox(t)
		b.quarantine = other(t, b)
		s := b.scan()
		trap(b)
		b.file("x/.envrc")
		if made := strings.Join(b.sweep(s), " "); !sameWords(made, ".palyra x/.envrc") {
			t.Errorf("%q", made)
		}
		b.intact()
		if entries, err := os.ReadDir(b.out); err != nil || len(entries) != 1 {
			t.Errorf("outside: %v, %v", entries, err)
		}
	}
}

func TestQuarantineMustBeOurs(t *testing.T) {
	b := newBox(t)
	s := b.scan()
	b.file(".envrc")
	must(t, os.Chmod(b.quarantine, 0o777))
	if _, err := s.Sweep(t.Context(), b.quarantine, testCall); palyra.AsError(err).Reason != palyra.ReasonUnsafePermissions {
		t.Errorf("open to others: %v", err)
	}
	link := b.quarantine + "-link"
	must(t, os.Symlink(b.out, link))
	if _, err := s.Sweep(t.Context(), link, testCall); err == nil {
		t.Error("a link was taken")
	}
	for _, id := range []palyra.CallID{"", "../x", "a/b", "."} {
		if _, err := s.Sweep(t.Context(), b.quarantine, id); err == nil {
			t.Errorf("call %q was taken", id)
		}
	}
	if !b.exists(".envrc") {
		t.Error("something was moved")
	}
}

// While the sweep works, somebody exchanges directories of the workspace for
// links to the outside and back. Nothing outside may be found or moved.
func TestSweepAgainstRaces(t *testing.T) {
	b := newBox(t)
	for i := range 40 {
		b.file(fmt.Sprintf("d%d/victim/x", i))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				dir, link := b.in(fmt.Sprintf("d%d", n%40)), b.in(fmt.Sprintf("link%d", i))
				_ = os.Symlink(b.out, link)
				if unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE) == nil {
					_ = os.Mkdir(filepath.Join(link, "victim/.git"), 0o700)
					_ = unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
				}
			}
		})
	}
	for range 60 {
		s, err := Scan(t.Context(), b.ws, Default, Limits{})
		if err != nil {
			continue // links and holes are refused, never followed
		}
		_, _ = s.Sweep(t.Context(), b.quarantine, testCall)
	}
	close(stop)
	wg.Wait()
	b.intact()
	if entries, err := os.ReadDir(filepath.Join(b.out, "victim")); err != nil || len(entries) != 2 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

// role runs this test again as somebody else, or somewhere else, where it is
// told to by its environment; it reports whether this is that.
func role(t *testing.T, attr *syscall.SysProcAttr) bool {
	t.Helper()
	if os.Getenv(roleEnv) == t.Name() {
		return true
	}
	dir, err := os.MkdirTemp("/tmp", "h-seal-role-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	bin := filepath.Join(dir, "test")
	must(t, exetest.Copy(bin, "/proc/self/exe"))
	cmd := exec.Command(bin, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.SysProcAttr = dir, attr
	cmd.Env = append(os.Environ(), roleEnv+"="+t.Name(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// asUser is for what root is never refused.
func asUser() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID, NoSetGroups: true}}
}

func TestShutDirectoriesAsAUser(t *testing.T) {
	if !role(t, asUser()) {
		return
	}
	b := newBox(t)
	b.file("old/in/.envrc", "plain/x")
	must(t, os.Chmod(b.in("old/in"), 0))
	must(t, os.Chmod(b.in("old"), 0))
	s := b.scan()
	if got := strings.Join(seals(s), " "); got != "rw old rw old/in ro old/in/.envrc" {
		t.Errorf("mounts %q", got)
	}
	b.file("new/in/.git/x/y")
	for _, p := range []string{"new/in/.git/x", "new/in/.git", "new/in", "new"} {
		must(t, os.Chmod(b.in(p), 0o100))
	}
	if made := strings.Join(b.sweep(s), " "); made != "new/in/.git" {
		t.Errorf("made %q", made)
	}
	for p, mode := range map[string]os.FileMode{"old": 0, "new": 0o100} {
		fi, err := os.Lstat(b.in(p))
		must(t, err)
		if fi.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, want %v", p, fi.Mode().Perm(), mode)
		}
	}
}

// A mount below the workspace is read-only for the run, and neither entered nor
// touched.
func TestMountInside(t *testing.T) {
	id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	gid := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	if !role(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: id, GidMappings: gid}) {
		return
	}
	b := newBox(t)
	b.file("mnt/", "bound/", "from/.git/config", ".envrc", "late/")
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("none", b.in("mnt"), "tmpfs", 0, ""))
	must(t, unix.Mount(b.in("from"), b.in("bound"), "", unix.MS_BIND, ""))
	b.file("mnt/.git/config")
	s := b.scan()
	want := "ro .envrc ro bound rw from rw from/.git ro from/.git/config ro mnt"
	if got := strings.Join(seals(s), " "); got != want {
		t.Errorf("mounts %q, want %q", got, want)
	}
	b.file("mnt/.envrc", "bound/.envrc", "new/.envrc")
	if made := strings.Join(b.sweep(s), " "); made != "from/.envrc new/.envrc" { // bound is from, found where it is
		t.Errorf("made %q", made)
	}
	if !b.exists("mnt/.envrc") {
		t.Error("something was moved out of another file system")
	}
	must(t, unix.Mount("none", b.in("late"), "tmpfs", 0, ""))
	if stale, err := s.Stale(t.Context()); err != nil || !stale {
		t.Errorf("a mount that came later: stale %v, %v", stale, err)
	}
	for _, m := range []string{"mnt", "bound", "late"} {
		must(t, unix.Unmount(b.in(m), unix.MNT_DETACH))
	}
}

// A directory of somebody else's that was there is left alone and cannot be
// written by the run; one that comes fails the sweep.
func TestDirectoriesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can make them
	}
	b := newBox(t)
	b.file("a/", "shut/.git/x")
	must(t, os.Chown(b.ws, testUID, testUID))
	must(t, os.Chown(b.in("a"), testUID, testUID))
	must(t, os.Chmod(filepath.Dir(filepath.Dir(b.ws)), 0o711))
	must(t, os.Chown(b.quarantine, testUID, testUID))
	must(t, asTestUser(t, b))
}

func asTestUser(t *testing.T, b *box) error {
	return owner.Do(owner.Identity{UID: testUID, GID: testUID}, func() error {
		tr, err := openTree(b.ws)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer tr.close()
		tr.euid = testUID // what the process is matters as little as what the thread is
		m, err := Compile(Default)
		if err != nil {
			return err
		}
		w := newWalker(t.Context(), tr, m, nil, b.ws, Limits{}.filled())
		if err := w.walk(); err != nil {
			return err
		}
		if got := strings.Join(seals(w.out), " "); got != "ro shut" {
			t.Errorf("mounts %q", got)
		}
		p, err := newQuarantiner(tr, b.quarantine, testCall)
		if err != nil {
			return err
		}
		w = newWalker(t.Context(), tr, m, w.out, b.ws, Limits{}.filled())
		w.known = map[string]watchedPath{}
		if _, err := w.clear(p); palyra.AsError(err).Reason != palyra.ReasonSealDenied {
			return errors.Join(errors.New("a new directory that cannot be searched was passed over"), err)
		}
		return nil
	})
}
