package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
)

// litter runs a shell command as the room's user, in its tmp.
func litter(t *testing.T, r *privateDir, command string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-ec", command)
	cmd.Dir = filepath.Join(r.path, tmpDir)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(r.who.uid), Gid: uint32(r.who.gid)}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func newRooms(t *testing.T) (*privateDirs, string) {
	t.Helper()
	base := passable(t)
	d, err := openPrivateDirs(filepath.Join(base, "rooms"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.close() })
	return d, base
}

func newRoom(t *testing.T, d *privateDirs, uid int) *privateDir {
	t.Helper()
	who := identity{uid, uid}
	if os.Geteuid() != 0 {
		who.gid = os.Getegid()
	}
	r, err := d.make(callID, who)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHostileLeftovers(t *testing.T) {
	for name, command := range map[string]string{
		"nothing":                `true`,
		"shut directories":       `mkdir -p a/b/c d; touch a/b/c/f d/f; chmod 0 a/b/c a/b a d`,
		"read-only directories":  `mkdir -p a/b; touch a/b/f; chmod 555 a/b a .`,
		"write-only directories": `mkdir -p a/b; touch a/b/f; chmod 222 a/b a`,
		"a shut tmp":             `touch f; chmod 0 .`,
		"a shut home":            `mkdir ../home/a; touch ../home/a/f; chmod 0 ../home/a ../home`,
		"links out":              `ln -s "$OUT" dir; ln -s "$OUT/f" file; ln -s / root; mkdir a; ln -s "$OUT" a/dir; ln -s . loop; ln -s nowhere dangling; chmod 555 a`,
		"pipes":                  `mkfifo p; mkdir a; mkfifo a/p`,
		"odd names": `mkdir -- '-rf *' 'a
b' '. .' "$(printf '\377\376')"; touch -- '-rf */-f' "$(printf '\377\376')/\\"`,
		"sticky directories":      `mkdir a; touch a/f; chmod 1777 a`,
		"names like ours":         `for i in 0 1 2 3 4 5 6 7 8 9; do mkdir -p ".$i/x/y" "$i/x/y"; touch ".$i/x/f"; done`,
		"many files":              `mkdir a; seq 3000 | xargs touch; cd a; seq 2000 | xargs touch`,
		"many directories":        `seq 400 | sed 's,\(.*\)\(.\),\2/\1/a/b,' | xargs mkdir -p`,
		"files nobody may change": `touch f; chmod 0 f; mkdir a; touch a/f; chmod 0 a/f; chmod 500 a`,
	} {
		t.Run(name, func(t *testing.T) {
			d, base := newRooms(t)
			out := filepath.Join(base, "out")
			if err := errors.Join(os.Mkdir(out, 0o777), os.Chmod(out, 0o777), os.WriteFile(filepath.Join(out, "f"), nil, 0o666)); err != nil {
				t.Fatal(err)
			}
			t.Setenv("OUT", out)
			r := newRoom(t, d, ordinary())
			litter(t, r, command)
			if err := d.remove(r.name); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(r.path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it stays: %v", err)
			}
			if fi, err := os.Stat(filepath.Join(out, "f")); err != nil || fi.Mode().Perm()&0o644 != 0o644 {
				t.Errorf("something outside changed: %v, %v", fi, err)
			}
		})
	}
}

// deepen makes a chain of directories that no path can name.
func deepen(t *testing.T, path string, depth int, mode uint32) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range depth {
		name := fmt.Sprintf("directory-number-%d", i)
		next := -1
		err := unix.Mkdirat(fd, name, 0o700)
		if err == nil {
			next, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		if err == nil && os.Geteuid() == 0 {
			err = unix.Fchown(next, stranger, stranger)
		}
		if err == nil {
			err = errors.Join(unix.Fchmod(fd, mode), unix.Close(fd))
		}
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	_ = unix.Close(fd)
}

func TestDeepLeftovers(t *testing.T) {
	d, _ := newRooms(t)
	for mode, depth := range map[uint32]int{0o700: 300, 0o000: 5000} {
		r := newRoom(t, d, ordinary())
		deepen(t, filepath.Join(r.path, tmpDir), depth, mode)
		if err := d.remove(r.name); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := os.Lstat(r.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("mode %o: it stays: %v", mode, err)
		}
	}
}

// What the run's user could not have deleted is not deleted for it: it moved a
// directory with somebody else's files into its room.
func TestRemovalHasNoMoreRightsThanTheRun(t *testing.T) {
	if os.Geteuid() != 0 {
		return // there is nobody else here
	}
	groups, err := syscall.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setgroups([]int{0}); err != nil { // as a daemon that was started by hand has
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setgroups(groups) }()
	for _, uid := range []int{stranger, 0} {
		d, _ := newRooms(t)
		r := newRoom(t, d, uid)
		theirs := filepath.Join(r.path, tmpDir, "moved", "theirs")
		if err := errors.Join(os.MkdirAll(theirs, 0o755), os.WriteFile(filepath.Join(theirs, "f"), nil, 0o644),
			os.Chown(filepath.Dir(theirs), uid, uid), os.Chown(theirs, stranger+1, 0), os.Chmod(theirs, 0o775)); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o775)
		if uid == 0 { // root is in its own group
			mode = 0o755
			if err := os.Chmod(theirs, mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.remove(r.name); err == nil {
			t.Errorf("uid %d: removed", uid)
		}
		if fi, err := os.Stat(theirs); err != nil || fi.Mode().Perm() != mode {
			t.Errorf("uid %d: %v, %v", uid, fi, err)
		}
		if _, err := os.Stat(filepath.Join(theirs, "f")); err != nil {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
}

func TestARoomThatStaysFailsNoCall(t *testing.T) {
	if os.Geteuid() != 0 {
		return // needs something that we cannot remove
	}
	b := newBox(t)
	b.sh("mkdir $TMPDIR/a")
	var stays string
	b.back.onStart = func(j Job) {
		stays = j.Private
		b.ok(os.MkdirAll(filepath.Join(j.Private, tmpDir, "roots", "a"), 0o755))
	}
	g, c := b.confirmed()
	if res := b.r.Run(t.Context(), g, c); res.Refusal != nil || res.Failure != nil || res.ExitCode != 0 {
		t.Errorf("%+v", res)
	}
	b.swept()
	if !strings.Contains(b.log.String(), filepath.Base(stays)) {
		t.Errorf("nobody is told: %s", b.log)
	}
	b.ok(b.r.Recover(t.Context())) // resists still: logged, no error
	b.ok(os.RemoveAll(filepath.Join(stays, tmpDir, "roots")))
	b.ok(b.r.Recover(t.Context()))
	if left, err := os.ReadDir(b.dir); err != nil || len(left) > 0 {
		t.Errorf("%v stays, %v", left, err)
	}
}

func TestRemovingAnIdIsNoWayOut(t *testing.T) {
	d, base := newRooms(t)
	victim := filepath.Join(base, "victim")
	if err := errors.Join(os.MkdirAll(filepath.Join(victim, "a"), 0o755), os.Symlink(victim, filepath.Join(d.path, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := d.remove("link"); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Stat(filepath.Join(victim, "a")); err != nil {
		t.Error(err)
	}
	if err := d.remove("nothing"); err != nil {
		t.Errorf("what is not there is gone: %v", err)
	}
}

func TestRoomNames(t *testing.T) {
	for _, id := range []palyra.CallID{"", ".", "..", "a/b", "../x", "a-b", "a b", "ä", palyra.CallID(strings.Repeat("a", 65))} {
		if name, err := privateName(id); palyra.AsError(err).Reason != palyra.ReasonMalformedInput {
			t.Errorf("%q: %q, %v", id, name, err)
		}
	}
	a, err1 := privateName(callID)
	b, err2 := privateName(callID)
	if err1 != nil || err2 != nil || a == b || !isPrivateName(a) || !strings.HasPrefix(a, string(callID)+"-") {
		t.Errorf("%s, %s, %v, %v", a, b, err1, err2)
	}
	for _, name := range []string{
		"", "a", "a-", "a-0123", "a-0123456789abcdeF", "a-0123456789abcdef0", "-0123456789abcdef",
		"../a-0123456789abcdef",
	} {
		if isPrivateName(name) {
			t.Errorf("%q is no room", name)
		}
	}
}

func TestTheDirectoryOfRooms(t *testing.T) {
	base := passable(t)
	at := func(name string) string { return filepath.Join(base, name) }
	refused := func(name, text string) {
		t.Helper()
		_, err := openPrivateDirs(at(name))
		if e := palyra.AsError(err); e.Reason != palyra.ReasonUnsafePermissions || e.Remedy == "" || !strings.Contains(e.Text, text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(os.Mkdir(at("real"), 0o700), os.Symlink(at("real"), at("link")), os.WriteFile(at("file"), nil, 0o600),
		os.Mkdir(at("open"), 0o700), os.Chmod(at("open"), 0o777), os.Mkdir(at("group"), 0o700), os.Chmod(at("group"), 0o770)); err != nil {
		t.Fatal(err)
	}
	refused("link", "not a directory")
	refused("file", "not a directory")
	refused("open", "others may write")
	refused("group", "others may write")
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Mkdir(at("theirs"), 0o700), os.Chown(at("theirs"), stranger, stranger)); err != nil {
			t.Fatal(err)
		}
		refused("theirs", fmt.Sprintf("belongs to uid %d", stranger))
	}
	for _, name := range []string{"real", "new"} {
		old := syscall.Umask(0o077)
		d, err := openPrivateDirs(at(name))
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(at(name))
		if err != nil || fi.Mode().Perm() != privateMode {
			t.Errorf("%s is %v, %v", name, fi.Mode(), err)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
	d, err := openPrivateDirs(at("link/../real")) // a link on the way is resolved once
	if err != nil || d.path != at("real") {
		t.Errorf("%+v, %v", d, err)
	}
	_ = d.close()
}

func TestARoomNobodyCouldReach(t *testing.T) {
	base := passable(t)
	if err := os.Chmod(base, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := openPrivateDirs(filepath.Join(base, "rooms"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	_, err = d.make(callID, identity{stranger + 1, stranger + 1})
	if e := palyra.AsError(err); e.Reason != palyra.ReasonUnsafePermissions || !strings.Contains(e.Remedy, "chmod o+x "+base) {
		t.Errorf("%+v", e)
	}
	r, err := d.make(callID, identity{os.Geteuid(), os.Getegid()}) // ourselves can
	if err != nil {
		t.Fatal(err)
	}
	if err := d.remove(r.name); err != nil {
		t.Error(err)
	}
}

func TestWhoRuns(t *testing.T) {
	ws := t.TempDir()
	if os.Geteuid() != 0 {
		_, err := whoRuns(palyra.WorkspaceRef{Path: ws, Owner: int64(os.Geteuid()) + 1})
		if e := palyra.AsError(err); e.Reason != palyra.ReasonWorkspaceDenied {
			t.Errorf("%v", err)
		}
		return
	}
	// nobody, as every system has it
	if id, err := whoRuns(palyra.WorkspaceRef{Path: ws, Owner: 65534}); err != nil || id.uid != 65534 || id.gid != 65534 {
		t.Errorf("%+v, %v", id, err)
	}
	if _, err := whoRuns(palyra.WorkspaceRef{Path: ws + "/gone", Owner: stranger}); err == nil {
		t.Error("a group out of nowhere")
	}
}

// What is ours is not removed, or made, by a run's rights.
func TestAsIsNobodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	ours := filepath.Join(t.TempDir(), "f")
	err := runAs(identity{stranger, stranger}, func() error { return os.WriteFile(ours, nil, 0o600) })
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
}
