package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// Whatever ran as another user, no thread that goes on living keeps that
// identity: the daemon's own work must not run as somebody else.
func TestOwnersIdentityEndsWithItsWork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root takes on another identity; the run as root does this")
		return
	}
	ref := palyra.WorkspaceRef{Path: "/tmp", Owner: nobody}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := asOwner(t.Context(), ref, func() error {
				if unix.Gettid() == os.Getpid() {
					return errors.New("on the first thread")
				}
				b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", unix.Gettid()))
				if err != nil {
					return err
				}
				s := string(b)
				if !strings.Contains(s, "Uid:\t0\t0\t0\t65534") || !strings.Contains(s, "Gid:\t0\t0\t0\t65534") ||
					!strings.Contains(s, "CapEff:\t0000000000000000") {
					return fmt.Errorf("not the owner's identity: %s", s)
				}
				if _, err := os.ReadFile("/etc/shadow"); err == nil {
					return errors.New("root's files can be read")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(10 * time.Second); ; { // a thread takes a moment to end
		left := threadsOf(t, "65534")
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads live on as the owner: %v", left)
		}
		runtime.Gosched()
	}
}

// threadsOf returns the process's threads with the uid among theirs.
func threadsOf(t *testing.T, uid string) []string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	var found []string
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err == nil && strings.Contains(string(b), uid) {
			found = append(found, task)
		}
	}
	return found
}

func TestOwnersWorkMayPanic(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root takes on another identity; the run as root does this")
		return
	}
	err := asOwner(t.Context(), palyra.WorkspaceRef{Owner: nobody}, func() error { panic("boom") })
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Error(err)
	}
}

func TestIdentityOf(t *testing.T) {
	for _, uid := range []int64{-1, 0, 1 << 32} {
		if _, err := identityOf(uid); palyra.AsError(err).Reason != palyra.ReasonWorkspaceDenied {
			t.Errorf("%d: %v", uid, err)
		}
	}
	id, err := identityOf(3_999_999_999) // nobody has it
	if err != nil || id.GID != noGroup || len(id.Groups) != 0 {
		t.Errorf("%+v, %v", id, err)
	}
}

// A file keeps the access list it has, and gets none that the directory hands
// down.
func TestWriteKeepsAccessList(t *testing.T) {
	b := newBox(t, os.Geteuid())
	// version 2; user::rw-, user:1234:r--, group::---, mask::r--, other::---
	acl := []byte{
		2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 210, 4, 0, 0, 4, 0, 0, 0, 255, 255, 255, 255,
		16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
	}
	b.put("listed", "x", 0o600)
	b.put("plain", "x", 0o640)
	if err := unix.Setxattr(b.path("listed"), aclName, acl, 0); err != nil {
		t.Logf("UNPROVEN HERE: no access lists on this file system: %v", err)
		return
	}
	b.ok(unix.Setxattr(b.dir, "system.posix_acl_default", acl, 0))
	b.must("write", args{"path": "listed", "content": "y"})
	b.must("write", args{"path": "plain", "content": "y"})
	got := make([]byte, 200)
	n, err := unix.Getxattr(b.path("listed"), aclName, got)
	if err != nil || string(got[:n]) != string(acl) {
		t.Errorf("%v, %v", got[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(b.path("plain"), aclName, got); !errors.Is(err, unix.ENODATA) {
		t.Errorf("the plain file got a list: %v", err)
	}
	if fi, _ := b.stat("plain"); fi.Mode() != 0o640 {
		t.Errorf("mode %v", fi.Mode())
	}
}

// A full disk fails the call and leaves the workspace as it was.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("needs a mount; the run as root does this")
		return
	}
	b := newBox(t, 0)
	b.mkdir("small")
	if err := unix.Mount("none", b.path("small"), "tmpfs", 0, "size=64k,mode=0755"); err != nil {
		t.Logf("UNPROVEN HERE: nothing can be mounted: %v", err)
		return
	}
	defer func() { _ = unix.Unmount(b.path("small"), 0) }()
	b.put("small/f", "old", 0o644)
	before := tree(t, b.dir)
	e := b.refused(palyra.ReasonDiskFull, "write", args{"path": "small/f", "content": strings.Repeat("x", 1<<20)})
	if e.Code != palyra.Unavailable {
		t.Errorf("%v", e)
	}
	patch := "--- a/small/f\n+++ b/small/f\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n--- /dev/null\n+++ b/small/g\n@@ " +
		"-0,0 +1 @@\n+" + strings.Repeat("x", 1<<20) + "\n"
	b.refused(palyra.ReasonDiskFull, "apply_patch", args{"patch": patch})
	after := tree(t, b.dir)
	if len(before) != len(after) || before["small/f"] != after["small/f"] {
		t.Errorf("%v", after)
	}
	b.must("write", args{"path": "small/f", "content": "fits"})
	if b.get("small/f") != "fits" {
		t.Error(b.get("small/f"))
	}
}
