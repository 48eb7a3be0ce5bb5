package seal

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
)

// However much a run makes, what it made of sealed paths does not remain.
func TestSweepOfTooMuch(t *testing.T) {
	few := Limits{Entries: 10, settle: -1}
	for name, makes := range map[string]func(b *box){
		"files": func(b *box) {
			for i := range 500 {
				b.file(fmt.Sprintf("old/f%d", i))
			}
		},
		"directories": func(b *box) {
			for i := range 300 {
				b.file(fmt.Sprintf("old/d%03d/x", i))
			}
		},
		"sealed ones": func(b *box) {
			for i := range 300 {
				b.file(fmt.Sprintf("old/x%d.code-workspace", i))
			}
		},
		"a tree": func(b *box) {
			for i := range 100 {
				b.file(fmt.Sprintf("new/%d/%d/x", i%7, i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.file("old/src/x")
			s, err := Scan(t.Context(), b.ws, Default, few)
			must(t, err)
			makes(b)
			b.file("old/src/.envrc", "zz/zz/.git/config", ".vscode/x")
			_, err = s.Sweep(t.Context(), b.quarantine, testCall)
			for i := 0; err != nil && i < 20; i++ { // it says so, and gets on every time
				_, err = s.Sweep(t.Context(), b.quarantine, testCall)
			}
			must(t, err)
			for _, p := range []string{"old/src/.envrc", "zz/zz/.git", ".vscode"} {
				if b.exists(p) {
					t.Errorf("%s remains", p)
				}
			}
			if !b.exists("old/src/x") {
				t.Error("what was there is gone")
			}
		})
	}
}

// TestSweepGoesOn: what cannot be moved does not keep the rest where it is.
func TestSweepGoesOn(t *testing.T) {
	id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	gid := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	if !role(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: id, GidMappings: gid}) {
		return
	}
	b := newBox(t)
	s := b.scan()
	b.file(".a/.vscode/", ".envrc", "z/.envrc", ".vscode/x")
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("none", b.in(".a/.vscode"), "tmpfs", 0, "")) // it cannot be renamed
	made, err := s.Sweep(t.Context(), b.quarantine, testCall)
	if err == nil || len(made) != 3 {
		t.Errorf("made %q, %v", made, err)
	}
	for _, p := range []string{".envrc", "z/.envrc", ".vscode"} {
		if b.exists(p) {
			t.Errorf("%s remains", p)
		}
	}
	must(t, unix.Unmount(b.in(".a/.vscode"), unix.MNT_DETACH))
	if made := strings.Join(b.sweep(s), " "); made != ".a/.vscode" {
		t.Errorf("then %q", made)
	}
}

// A run that shuts the workspace itself keeps nothing in it, also where the
// quarantine has to be made there.
func TestSweepOfAShutWorkspace(t *testing.T) {
	t.Run("as root", func(t *testing.T) { shutWorkspaces(t) })
	t.Run("as a user", func(t *testing.T) {
		if role(t, asUser()) {
			shutWorkspaces(t)
		}
	})
}

func shutWorkspaces(t *testing.T) {
	for _, mode := range []os.FileMode{0o555, 0o500, 0o100, 0} {
		for _, far := range []bool{true, false} {
			b := newBox(t)
			if far {
				b.quarantine = other(t, b)
			}
			b.file("x", "sub/.envrc", ".mcp.json")
			uid := giveAway(t, b)
			s := b.scan()
			b.file(".envrc", ".palyra/quarantine/evil", "dir/.git/x")
			must(t, os.Remove(b.in("sub/.envrc"))) // from outside; the run puts its own there
			must(t, os.WriteFile(b.in("sub/.envrc"), []byte("evil"), 0o600))
			for _, p := range []string{".envrc", "sub/.envrc", "dir", "dir/.git"} {
				must(t, os.Lchown(b.in(p), uid, -1))
			}
			for _, p := range []string{"sub", "dir", "."} {
				must(t, os.Chmod(b.in(p), mode))
			}
			made, err := s.Sweep(t.Context(), b.quarantine, testCall)
			if err != nil || len(made) != 4 {
				t.Fatalf("mode %o, far %v: made %q, %v (%v)", mode, far, made, err, errors.Unwrap(palyra.AsError(err)))
			}
			if fi, err := os.Stat(b.ws); err != nil || fi.Mode().Perm() != mode {
				t.Errorf("mode %o: now %v, %v", mode, fi.Mode(), err)
			}
			must(t, os.Chmod(b.ws, 0o700))
			must(t, os.Chmod(b.in("sub"), 0o700))
			if got, err := os.ReadFile(b.in("sub/.envrc")); b.exists(".envrc") || string(got) != "sub/.envrc" {
				t.Errorf("mode %o, far %v: .envrc remains, or sub/.envrc is %q, %v", mode, far, got, err)
			}
		}
	}
}
