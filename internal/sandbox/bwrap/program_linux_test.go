package bwrap

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/exetest"
	"palyra/internal/sandbox/celltest"
)

func TestBwrapFound(t *testing.T) {
	if os.Getenv(asOrdinary) != "" && os.Geteuid() != 0 {
		t.Log(wasThere)
	}
	b := theBwrap(t)
	content, err := os.ReadFile(DefaultPath)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if b.Path != DefaultPath || b.Digest != hex.EncodeToString(sum[:]) || b.Version == "" || b.Changed() {
		t.Errorf("%+v", b)
	}
	if fd := b.file.Fd(); fd < bwrapFD {
		t.Errorf("its descriptor %d is among those that children get", fd)
	}
	if out, err := exec.Command(DefaultPath, "--version").Output(); err != nil || strings.TrimSpace(string(out)) != "bubblewrap "+b.Version {
		t.Errorf("%q, %v; we say %q", out, err, b.Version)
	}
}

// ours is a directory in which a test keeps programs, root's alone as far as
// root runs it. /tmp itself is open to everybody, which is refused.
func ours(t *testing.T) string {
	t.Helper()
	top := "/usr/local/share"
	if os.Geteuid() != 0 {
		top = ""
	}
	dir, err := os.MkdirTemp(top, "palyra-bwrap-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestBwrapRefused(t *testing.T) {
	dir := ours(t)
	bin := filepath.Join(dir, "bwrap")
	chmod := func(mode uint32) func() error { return func() error { return unix.Chmod(bin, mode) } }
	for name, c := range map[string]struct {
		path   string
		change func() error
		text   string // or where it is not root's anyway: "belongs to uid"
		remedy string
	}{
		"missing":                {path: dir + "/missing", text: "there is no bubblewrap", remedy: "apt install bubblewrap"},
		"relative":               {path: "bwrap", text: "not absolute", remedy: "PATH is not searched"},
		"a directory":            {path: "/usr/share", text: "is not a file", remedy: "apt install bubblewrap"},
		"another program":        {path: "/usr/bin/env", text: "does not say that it is bubblewrap", remedy: "apt install bubblewrap"},
		"set-user-id":            {change: chmod(0o4755), text: "set-user-id", remedy: "chmod ug-s"},
		"set-group-id":           {change: chmod(0o2755), text: "set-user-id", remedy: "chmod ug-s"},
		"writable for its group": {change: chmod(0o775), text: "others than root can write", remedy: "chmod go-w"},
		"writable for all":       {change: chmod(0o757), text: "others than root can write", remedy: "chmod go-w"},
		"of another user": {
			change: func() error { return os.Chown(bin, 1, 1) }, text: "belongs to uid 1",
			remedy: "apt install bubblewrap",
		},
		"in an open directory": {
			change: func() error { return os.Chmod(dir, 0o777) }, text: "could be replaced",
			remedy: "use the system's bubblewrap ('apt install bubblewrap'",
		},
		"in another's directory": {
			change: func() error { return os.Chown(dir, 1, 1) }, text: "could be replaced",
			remedy: "apt install bubblewrap",
		},
		"set-user-id there": {
			change: func() error { return errors.Join(os.Chmod(dir, 0o777), unix.Chmod(bin, 0o4755)) },
			text:   "set-user-id", remedy: "chmod ug-s",
		},
		"with file capabilities": {change: func() error { return setCap(bin) }, text: "file capabilities", remedy: "setcap -r"},
		"behind a link, not safe": {path: dir + "/link", change: func() error {
			return errors.Join(os.Symlink(bin, dir+"/link"), os.Chmod(bin, 0o777))
		}, text: "others than root can write", remedy: "chmod go-w"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil && os.Geteuid() != 0 {
				return // root's run covers it
			}
			if err := errors.Join(os.Chmod(dir, 0o755), exetest.Copy(bin, DefaultPath), os.Chmod(bin, 0o755)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = errors.Join(os.Chown(dir, 0, 0), os.RemoveAll(bin)) })
			if c.path == "" {
				c.path = bin
			}
			if c.change != nil {
				if err := c.change(); err != nil {
					t.Fatal(err)
				}
			}
			b, no := Find(c.path)
			if no == nil {
				b.Close()
				t.Fatal("it was taken")
			}
			if strings.Contains(no.Text, "could be replaced") && strings.Contains(no.Remedy, "chmod") {
				t.Errorf("%q would have people change a directory that may be the system's", no.Remedy)
			}
			if !strings.Contains(no.Text, c.text) || !strings.Contains(no.Remedy, c.remedy) || no.Reason != palyra.ReasonTierUnavailable ||
				no.Code != palyra.Unavailable {
				t.Errorf("%+v", no)
			}
		})
	}
	if os.Geteuid() != 0 { // what a user made is not root's
		mine := filepath.Join(t.TempDir(), "bwrap")
		if err := errors.Join(exetest.Copy(mine, DefaultPath), os.Chmod(mine, 0o755)); err != nil {
			t.Fatal(err)
		}
		if b, no := Find(mine); no == nil {
			b.Close()
			t.Error("a user's own was taken")
		}
	}
}

// setCap gives a file the right to set user ids, as setcap would.
func setCap(path string) error {
	value := []byte{1, 0, 0, 2, 1 << unix.CAP_SETUID, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	return unix.Setxattr(path, "security.capability", value, 0)
}

func TestBwrapChanged(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	bin := filepath.Join(ours(t), "bwrap")
	install := func() {
		t.Helper()
		if err := errors.Join(exetest.Copy(bin+".new", DefaultPath), os.Chmod(bin+".new", 0o755), os.Rename(bin+".new", bin)); err != nil {
			t.Fatal(err)
		}
	}
	install()
	link := bin + ".link"
	if err := os.Symlink(bin, link); err != nil {
		t.Fatal(err)
	}
	b, no := Find(link)
	if no != nil {
		t.Fatal(no)
	}
	defer b.Close()
	if b.Changed() {
		t.Error("it changed by itself")
	}
	install()
	if !b.Changed() {
		t.Error("another file at its path is not noticed")
	}
	if out, err := b.ask(t.Context(), "--version"); err != nil || out != "bubblewrap "+b.Version+"\n" {
		t.Errorf("what was opened does not run any more: %q, %v", out, err)
	}
	if err := os.Remove(bin); err != nil {
		t.Fatal(err)
	}
	if !b.Changed() {
		t.Error("its absence is not noticed")
	}
}

func TestBwrapTooOld(t *testing.T) {
	b := theBwrap(t)
	help, err := b.ask(t.Context(), "--help")
	if err != nil {
		t.Fatal(err)
	}
	if no := tooOld("0.8.0", bwrapOptions(help)); no != nil {
		t.Error(no)
	}
	for _, o := range bwrapNeeds {
		options := bwrapOptions(help)
		delete(options, o)
		if no := tooOld("0.4.0", options); no == nil || !strings.HasSuffix(no.Text, "bubblewrap 0.4.0 is too old: it has no "+o) {
			t.Errorf("without %s: %v", o, no)
		}
	}
	if no := tooOld("0.1", bwrapOptions("usage: bwrap --bind-fd\n\n   see --args FD\n")); no == nil || !strings.Contains(no.Text, "--args") {
		t.Errorf("options that are only mentioned count: %v", no)
	}
}

func TestBwrapTry(t *testing.T) {
	b := theBwrap(t)
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		if no := b.Try(t.Context(), s.UID, s.GID); no != nil {
			t.Errorf("%v: %s (%v)", no, no.Remedy, no.Cause)
		}
	})
}

// Without user namespaces the refusal names the setting. It is set to 0 inside a
// user namespace of the test's own, where it holds for nobody else.
func TestBwrapTryWithoutNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	here, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	roomAgain(t, "^TestInnerNoNamespaces$", &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: one, GidMappings: one,
		GidMappingsEnableSetgroups: true,
	},
		outerUserNS+"="+here)
}

const outerUserNS = "PALYRA_TEST_ROOM_OUTER"

func TestInnerNoNamespaces(t *testing.T) {
	outer := os.Getenv(outerUserNS)
	here, err := os.Readlink("/proc/self/ns/user")
	if outer == "" || err != nil || here == outer {
		return // never outside
	}
	t.Log(wasThere)
	b := theBwrap(t)
	if no := b.Try(t.Context(), 0, 0); no != nil {
		t.Errorf("before: %v (%v)", no, no.Cause)
	}
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	no := b.Try(t.Context(), 0, 0)
	if no == nil || !strings.Contains(no.Text, "user.max_user_namespaces is 0") ||
		!strings.Contains(no.Remedy, "sysctl -w user.max_user_namespaces") {
		t.Errorf("%+v", no)
	}
}

// The daemon learns the cell's process id where it is.
func TestBwrapInfo(t *testing.T) {
	b := theBwrap(t)
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r := newRoom(t, s)
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = out.Close() }()
		c, err := b.Command(r, devNull(t), devNull(t), in, "m")
		if err != nil {
			t.Fatal(err)
		}
		argv := append(c.Argv[:len(c.Argv)-3:len(c.Argv)-3], "/bin/true")
		cmd := &exec.Cmd{Path: c.Path, Args: argv, Env: c.Env, ExtraFiles: c.Files, Dir: "/", SysProcAttr: Attr(r.UID, r.GID)}
		err = cmd.Start()
		c.Close()
		_ = in.Close()
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(out)
		err = errors.Join(err, cmd.Wait())
		var info struct {
			Child int `json:"child-pid"`
		}
		if err = errors.Join(err, json.Unmarshal(said, &info)); err != nil || info.Child <= 1 {
			t.Errorf("%q: %v", said, err)
		}
	})
}
