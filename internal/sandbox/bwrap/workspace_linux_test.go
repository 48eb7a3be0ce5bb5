package bwrap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox/celltest"
)

// The workspace that was checked is bound, or none: swapping it for something
// else between the check and the start leads nowhere.
func TestRoomSwappedWorkspace(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		for name, swap := range map[string]func(ws, other string) error{
			"removed, a link instead":    func(ws, other string) error { return replace(ws, func() error { return os.Symlink(other, ws) }) },
			"removed, another instead":   func(ws, _ string) error { return replace(ws, func() error { return os.Mkdir(ws, 0o755) }) },
			"removed, nothing instead":   func(ws, _ string) error { return replace(ws, func() error { return nil }) },
			"a link on the way, removed": func(ws, other string) error { return linkAbove(ws, other, true) },
		} {
			t.Run(name, func(t *testing.T) {
				r, other := nested(t, s)
				a := inRoom(t, r, "echo started", func() {
					if err := swap(r.Workspace, other); err != nil {
						t.Fatal(err)
					}
				})
				if a.err == nil || a.out != "" {
					t.Fatalf("a room was built: %+v", a)
				}
				wasRefused(t, a)
			})
		}
		t.Run("moved, a link instead", func(t *testing.T) {
			r, other := nested(t, s)
			celltest.MustWrite(t, filepath.Join(r.Workspace, "which"), "ours\n", 0o644)
			a := inRoom(t, r, "cat which 2>/dev/null || cat "+quote(r.Workspace)+"/which", func() {
				if err := linkAbove(r.Workspace, other, false); err != nil {
					t.Fatal(err)
				}
			})
			if a.err == nil && strings.TrimSpace(a.out) != "ours" {
				t.Errorf("the room shows %q", a.out)
			}
		})
	})
}

// wasRefused asserts that bubblewrap noticed the swap itself: that it compares what
// it bound with the descriptor, or did not find what the descriptor stood for.
func wasRefused(t *testing.T, a answer) {
	t.Helper()
	for _, words := range []string{"Race condition binding dirfd", "Can't find source path", "Can't get type of source", "Can't bind mount"} {
		if strings.Contains(a.said, words) {
			return
		}
	}
	t.Errorf("bubblewrap says %q", a.said)
}

// nested is a room whose workspace has directories of its owner above it, and
// another directory beside those.
func nested(t *testing.T, s celltest.Resident) (r Room, other string) {
	t.Helper()
	top := workspaceOf(t, s, filepath.Join(openDir(t, 0o755), "top"))
	r = newRoom(t, s)
	workspaceOf(t, s, filepath.Join(top, "mid"))
	r.Workspace = workspaceOf(t, s, filepath.Join(top, "mid", "ws"))
	other = filepath.Join(filepath.Dir(top), "other")
	celltest.MustWrite(t, filepath.Join(other, "which"), "theirs\n", 0o644)
	celltest.MustWrite(t, filepath.Join(other, "ws", "which"), "theirs\n", 0o644)
	return r, other
}

func replace(ws string, by func() error) error {
	if err := os.RemoveAll(ws); err != nil {
		return err
	}
	return by()
}

// linkAbove puts a link in the place of the directory above the workspace.
func linkAbove(ws, other string, remove bool) error {
	mid := filepath.Dir(ws)
	if remove {
		if err := os.RemoveAll(mid); err != nil {
			return err
		}
	} else if err := os.Rename(mid, mid+".away"); err != nil {
		return err
	}
	return os.Symlink(other, mid)
}

// While somebody swaps the workspace with a link as fast as they can, every room
// that is built at all has the directory that was opened.
func TestRoomRace(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r, other := nested(t, s)
		celltest.MustWrite(t, filepath.Join(r.Workspace, "which"), "ours\n", 0o644)
		mid := filepath.Dir(r.Workspace)
		if err := os.Symlink(other, mid+".link"); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), sync.WaitGroup{}
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, mid, unix.AT_FDCWD, mid+".link", unix.RENAME_EXCHANGE)
				}
			}
		})
		defer func() { close(stop); done.Wait() }()
		built, refusals := 0, 0
		for range celltest.Tries(60) {
			switch a, err := tryRoom(t, r, "cat "+quote(r.Workspace)+"/which"); {
			case err != nil: // the link was there when it was opened
				if e := palyra.AsError(err); e.Reason != palyra.ReasonPlanChanged {
					t.Fatalf("refused by %q: %v", e.Reason, err)
				}
				refusals++
			case a.err != nil:
				wasRefused(t, a)
				refusals++
			case strings.TrimSpace(a.out) != "ours":
				t.Fatalf("a room shows %q", a.out)
			default:
				built++
			}
		}
		t.Logf("%d built, %d refused", built, refusals)
	})
}

// A workspace whose path has a link is not the one that was judged.
func TestRoomLinkedWorkspace(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r, _ := nested(t, s)
		link := filepath.Join(filepath.Dir(filepath.Dir(r.Workspace)), "link")
		if err := os.Symlink(r.Workspace, link); err != nil {
			t.Fatal(err)
		}
		r.Workspace = link
		refused(t, r, palyra.ReasonPlanChanged)
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		refused(t, r, palyra.ReasonPlanChanged)
		celltest.MustWrite(t, link, "", 0o644)
		refused(t, r, palyra.ReasonPlanChanged)
	})
}

func TestRoomOddPaths(t *testing.T) {
	names := []string{
		"with blank", "-dash", "--ro-bind", "new\nline", "tab\tquote'\"", `back\slash\040`, "#hash", "ünïcode-漢字", "a,b:c=d", "(deleted)",
		"x (deleted)",
		"bad\xff\xfeutf8", "*", "$HOME", strings.Repeat("n", 255),
		strings.Repeat(strings.Repeat("d", 200)+"/", 18) + "deep",
	}
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		for _, name := range names {
			r := newRoom(t, s)
			r.Workspace = workspaceOf(t, s, filepath.Join(filepath.Dir(r.Workspace), name))
			a := inRoom(t, r, `cd "$0" 2>/dev/null || cd -- `+quote(r.Workspace)+`; pwd -P >made; ls`)
			if a.err != nil || strings.TrimSpace(a.out) != "made" {
				t.Errorf("%.60q: %v %q %q", name, a.err, a.out, a.said)
				continue
			}
			if got, err := os.ReadFile(filepath.Join(r.Workspace, "made")); err != nil || string(got) != r.Workspace+"\n" {
				t.Errorf("%.60q: made %q, %v", name, got, err)
			}
		}
	})
}

// The rest needs mounts and directories that a test must not make on the host:
// it happens in a mount namespace of its own.
func TestRoomPlacesOfWorkspaces(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	roomAgain(t, "^TestPrivately", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, privately+"=1")
}

const privately = "PALYRA_TEST_ROOM_PRIVATELY"

func private(t *testing.T, over ...string) bool {
	t.Helper()
	if os.Getenv(privately) == "" {
		return false
	}
	t.Log(wasThere)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	for _, dir := range over {
		if err := unix.Mount("none", dir, "tmpfs", 0, "mode=755"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	return true
}

func TestPrivatelyElsewhere(t *testing.T) {
	if !private(t, "/home", "/opt", "/srv", "/mnt", "/run", "/var/tmp", "/media") {
		return
	}
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		for _, dir := range []string{
			"/home/agent/project", "/home/agent/.cache/x/y", "/home/u/project", "/opt/project", "/srv/project",
			"/mnt/a/b", "/run/x", "/var/tmp/x", "/media/x", "/palyra-room-test/x",
		} {
			r := newRoom(t, s)
			r.Workspace = workspaceOf(t, s, filepath.Join(dir, s.Name))
			t.Cleanup(func() { _ = os.RemoveAll("/palyra-room-test") })
			celltest.MustWrite(t, filepath.Join(filepath.Dir(r.Workspace), "beside"), "secret\n", 0o644)
			out := says(t, r, `cd `+quote(r.Workspace)+
				`; echo made >made; echo list: $(ls -A); echo beside: $(cat ../beside 2>/dev/null); echo home: $(touch /home/agent/x && echo yes)`)
			beside := ""
			if strings.HasPrefix(dir, "/opt/") {
				beside = "secret" // what is root's and open in /opt is shown
			}
			if line(out, "list") != "made" || line(out, "beside") != beside || line(out, "home") != "yes" {
				t.Errorf("%s: %s", dir, out)
			}
			if _, err := os.Stat(filepath.Join(r.Workspace, "made")); err != nil {
				t.Error(err)
			}
		}
	})
}

// Where the way to the workspace is shown to the room, its owner must not be able
// to put a link there. A directory of the owner's own is not shown: only the
// workspace is in it.
func TestPrivatelyLooseWay(t *testing.T) {
	if !private(t, "/opt") {
		return
	}
	s := celltest.OrdinaryResident()
	workspaceOf(t, s, "/opt/theirs")
	workspaceOf(t, s, "/opt/group/project")
	root := celltest.Resident{Name: "root"}
	workspaceOf(t, root, "/opt/loose/roots")
	for _, dir := range []string{"/opt/group", "/opt/loose"} {
		if err := errors.Join(os.Chown(dir, 0, int(s.GID)), os.Chmod(dir, 0o775)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/opt/theirs", "/opt/group"} {
		celltest.MustWrite(t, dir+"/beside", "secret\n", 0o644)
		r := newRoom(t, s)
		r.Workspace = workspaceOf(t, s, dir+"/project")
		out := says(t, r, `cd `+dir+
			`; echo list: $(ls -A); echo made: $(touch project/x && echo yes); echo beside: $(touch y 2>/dev/null && echo yes)`)
		if line(out, "list") != "project" || line(out, "made") != "yes" || line(out, "beside") != "" {
			t.Errorf("%s: %s", dir, out)
		}
	}
	r := newRoom(t, root)
	r.Workspace = "/opt/loose/roots"
	e := refused(t, r, palyra.ReasonWorkspaceDenied)
	if !strings.Contains(e.Text, "/opt") {
		t.Errorf("%v", e)
	}
}

func TestPrivatelyClosed(t *testing.T) {
	if !private(t, "/root") {
		return
	}
	if err := os.Chmod("/root", 0o700); err != nil {
		t.Fatal(err)
	}
	s := celltest.OrdinaryResident()
	r := newRoom(t, s)
	r.Workspace = workspaceOf(t, s, "/root/project")
	e := refused(t, r, palyra.ReasonWorkspaceDenied)
	if !strings.Contains(e.Text, "/root/project") || !strings.Contains(e.Remedy, "chmod o+x") {
		t.Errorf("%v: %s", e, e.Remedy)
	}
	root := celltest.Resident{Name: "root"}
	r = newRoom(t, root)
	r.Workspace = workspaceOf(t, root, "/root/own")
	if got := says(t, r, `ls -A /root`); got != "own" {
		t.Errorf("/root in the room: %q", got)
	}
}

// What is mounted in the workspace is seen and cannot be written: seals do not
// reach it.
func TestPrivatelySubmounts(t *testing.T) {
	if !private(t) {
		return
	}
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r := newRoom(t, s)
		for _, name := range []string{"sub", "sub/in it", "closed"} {
			dir := workspaceOf(t, s, filepath.Join(r.Workspace, name))
			if err := unix.Mount("none", dir, "tmpfs", 0, "mode=777"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			celltest.MustWrite(t, filepath.Join(dir, "file"), name+"\n", 0o666)
		}
		if err := os.Chmod(filepath.Join(r.Workspace, "closed"), 0); err != nil {
			t.Fatal(err)
		}
		out := says(t, r, `cd `+quote(r.Workspace)+`
			echo read: $(cat sub/file "sub/in it/file")
			echo written: $(for d in . sub "sub/in it" closed; do (echo x >"$d/new") 2>/dev/null && echo "$d"; done; (echo x >>sub/file) 2>/dev/null && echo file)
			rm new`)
		if line(out, "read") != "sub sub/in it" || line(out, "written") != "." {
			t.Errorf("%s", out)
		}
	})
}

func TestPrivatelyTooManySubmounts(t *testing.T) {
	if !private(t) {
		return
	}
	s := celltest.OrdinaryResident()
	r := newRoom(t, s)
	for i := range maxSubmounts + 1 {
		dir := workspaceOf(t, s, filepath.Join(r.Workspace, "m", string(rune('a'+i%26))+strings.Repeat("x", i/26)))
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	refused(t, r, palyra.ReasonWorkspaceDenied)
}
