//go:build unix

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

const (
	nobody = 65534
	asUser = "PALYRA_TEST_AS_USER"
)

// TestMain runs everything a second time as an ordinary user when it is root.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && os.Geteuid() == 0 && os.Getenv(asUser) == "" {
		code = again()
	}
	os.Exit(code)
}

func again() int {
	dir, err := os.MkdirTemp("", "palyra-test")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = errors.Join(os.Chmod(dir, 0o755), copyFile(os.Args[0], filepath.Join(dir, "ws.test")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	args := []string{filepath.Join(dir, "ws.test")}
	for _, a := range os.Args[1:] {
		if !strings.Contains(a, "testlogfile") && !strings.Contains(a, "profile") && !strings.Contains(a, "gocoverdir") {
			args = append(args, a)
		}
	}
	p, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Env:   append(os.Environ(), asUser+"=1", "HOME=/nonexistent"),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if st, err := p.Wait(); err != nil || !st.Success() {
		fmt.Fprintln(os.Stderr, "as an ordinary user:", st, err)
		return 1
	}
	return 0
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// lines is a journal that can fail.
type lines struct {
	events []palyra.Event
	err    error
}

func (l *lines) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	if l.err != nil {
		return palyra.Position{}, l.err
	}
	tx.OnDone(func(ok bool) {
		if ok {
			l.events = append(l.events, e)
		}
	})
	return palyra.Position{Seq: 1}, nil
}

type desk struct {
	*testing.T
	*Registry
	journal *lines
	top     string // real; everything is below it
	home    string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{T: t, journal: &lines{}, top: top, home: filepath.Join(top, "homes", "me")}
	for _, dir := range []string{"state", "config", "homes/me/.ssh", "homes/me/project", "ws/sub/deep"} {
		d.ok(os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	t.Setenv("HOME", d.home)
	engine, err := sqlite.Open(filepath.Join(top, "state", "state.db"))
	d.ok(err)
	db, err := store.Open(t.Context(), engine, Schema())
	d.ok(err)
	t.Cleanup(func() { _ = db.Close() })
	d.Registry, err = New(Config{
		DB: db, Journal: d.journal, Now: func() time.Time { return time.Unix(1_700_000_000, 5) },
		Own: []string{filepath.Join(top, "state"), filepath.Join(top, "config"), filepath.Join(top, "run")},
	})
	d.ok(err)
	return d
}

func (d *desk) ok(errs ...error) {
	d.Helper()
	if err := errors.Join(errs...); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) path(rel string) string { return filepath.Join(d.top, rel) }

func (d *desk) peer() int64 { return int64(os.Geteuid()) }

func (d *desk) resolve(path string) (palyra.WorkspaceRef, error) {
	return d.Resolve(d.Context(), path, d.peer())
}

func (d *desk) denied(path string) {
	d.Helper()
	ref, err := d.resolve(path)
	e := palyra.AsError(err)
	if err == nil || e.Reason != palyra.ReasonWorkspaceDenied || e.Code != palyra.Denied || e.Remedy == "" {
		d.Errorf("%q: %+v, %v (%s) %q", path, ref, err, e.Reason, e.Remedy)
	}
	if _, err := d.Add(d.Context(), path, "", "user:x", palyra.Signature{}); palyra.AsError(err).Reason != palyra.ReasonWorkspaceDenied {
		d.Errorf("%q can be registered: %v", path, err)
	}
}

func TestResolveUnregistered(t *testing.T) {
	d := newDesk(t)
	d.ok(os.Symlink(d.path("ws"), d.path("link")))
	for _, p := range []string{d.path("ws"), d.path("ws") + "/", d.path("ws/sub/.."), d.path("link")} {
		ref, err := d.resolve(p)
		want := palyra.WorkspaceRef{Path: d.path("ws"), Owner: int64(os.Geteuid())}
		if err != nil || ref != want {
			t.Errorf("%s: %+v, %v", p, ref, err)
		}
	}
	if ref, err := d.resolve(d.path("homes/me/project")); err != nil || ref.Known {
		t.Errorf("a project in the home: %+v, %v", ref, err)
	}
}

func TestNeverAWorkspace(t *testing.T) {
	d := newDesk(t)
	d.ok(os.WriteFile(d.path("file"), nil, 0o644), os.Symlink("/etc", d.path("ws/etc")), os.Symlink(d.path("state"), d.path("ws/state")),
		os.Symlink(d.home, d.path("ws/home")), os.Mkdir(d.path("state/in"), 0o755), os.Symlink("loop", d.path("loop")))
	for _, p := range []string{
		"", "ws", "./ws", "~/x", "/", "//", "/..", "/home", "/root", "/usr", "/usr/local", "/etc", "/etc/ssl", "/bin", "/sbin", "/lib",
		"/lib64", "/boot", "/dev", "/dev/shm",
		"/proc", "/proc/self/cwd", "/sys", "/run", "/run/user/1000", "/var", "/var/lib", "/var/log", "/opt", "/srv", "/mnt", "/tmp", "/var/tmp",
		"/home/somebody",
		"/tmp/../etc", d.path("none"), d.path("file"), d.path("file/x"), d.path("loop"), "/tmp/\x00", "/tmp/\xff",
		"/" + strings.Repeat("a", 5000),
		d.path("ws/etc"), d.path("ws/etc/ssl"),
		d.home, d.path("homes"), d.path("ws/home"), d.top, d.path("homes/me/.ssh"),
		d.path("state"), d.path("state/in"), d.path("state/new"), d.path("config"), d.path("run"), d.path("ws/state"), d.path("ws/state/in"),
	} {
		d.denied(p)
	}
}

// What lies under another name is refused as well, where mounts can be made.
func TestBindMountOfOwnDirectory(t *testing.T) {
	d := newDesk(t)
	d.ok(os.Mkdir(d.path("alias"), 0o755))
	if err := bind(d.path("state"), d.path("alias")); err != nil {
		t.Logf("UNPROVEN HERE: nothing can be mounted: %v", err)
		return
	}
	defer func() { _ = unbind(d.path("alias")) }()
	d.ok(os.Mkdir(d.path("alias/deep"), 0o755))
	d.denied(d.path("alias"))
	d.denied(d.path("alias/deep"))
}

func TestRegistered(t *testing.T) {
	d := newDesk(t)
	sig := palyra.Signature{Sig: "s"}
	w, err := d.Add(t.Context(), d.path("ws")+"/.", "main", "user:op", sig)
	d.ok(err)
	want := palyra.Workspace{
		Path: d.path("ws"), Name: "main", Owner: int64(os.Geteuid()), AddedBy: "user:op",
		AddedAt: time.Unix(1_700_000_000, 5).UTC(),
	}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Error(diff)
	}
	list, err := d.List(t.Context())
	if diff := cmp.Diff([]palyra.Workspace{want}, list); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if len(d.journal.events) != 1 || cmp.Diff(d.journal.events[0], palyra.Event(
		palyra.WorkspaceAdded{Workspace: want, Signature: sig})) != "" {
		t.Errorf("%+v", d.journal.events)
	}
	for p, known := range map[string]bool{"ws": true, "ws/sub": true, "ws/sub/deep": true, "homes/me/project": false} {
		ref, err := d.resolve(d.path(p))
		if err != nil || ref.Known != known || ref.Path != d.path(p) {
			t.Errorf("%s: %+v, %v", p, ref, err)
		}
	}
	if found, ok, err := d.Find(t.Context(), d.path("ws/sub")); err != nil || !ok || found.Path != want.Path {
		t.Errorf("%+v %v %v", found, ok, err)
	}
	if found, ok, err := d.Find(t.Context(), d.path("wsx")); err != nil || ok || found != (palyra.Workspace{}) {
		t.Errorf("%+v %v %v", found, ok, err)
	}
	if _, err := d.Add(t.Context(), d.path("ws"), "", "user:op", sig); palyra.AsError(err).Reason != palyra.ReasonExists {
		t.Errorf("twice: %v", err)
	}
	d.ok(os.RemoveAll(d.path("ws"))) // it can be forgotten when it is gone
	d.ok(d.Remove(t.Context(), d.path("ws"), "user:op", sig))
	if diff := cmp.Diff(palyra.Event(palyra.WorkspaceRemoved{Path: d.path("ws"), By: "user:op", Signature: sig}),
		d.journal.events[1]); diff != "" {
		t.Error(diff)
	}
	if err := d.Remove(t.Context(), d.path("ws"), "user:op", sig); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("removed twice: %v", err)
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 0 || list == nil {
		t.Error(list, err)
	}
}

func TestRemoveByLink(t *testing.T) {
	d := newDesk(t)
	d.ok(os.Symlink(d.path("ws"), d.path("link")))
	_, err := d.Add(t.Context(), d.path("link"), "", "user:op", palyra.Signature{})
	d.ok(err, d.Remove(t.Context(), d.path("link"), "user:op", palyra.Signature{}))
}

// The registry and the journal change together or not at all.
func TestNoChangeWithoutItsLine(t *testing.T) {
	d := newDesk(t)
	d.journal.err = palyra.Errorf(palyra.Unavailable, palyra.ReasonJournalUnavailable, "no")
	if _, err := d.Add(t.Context(), d.path("ws"), "", "user:op", palyra.Signature{}); palyra.CodeOf(err) != palyra.Unavailable {
		t.Error(err)
	}
	if list, _ := d.List(t.Context()); len(list) != 0 {
		t.Errorf("%v", list)
	}
	d.journal.err = nil
	_, err := d.Add(t.Context(), d.path("ws"), "", "user:op", palyra.Signature{})
	d.ok(err)
	d.journal.err = errors.New("no")
	if err := d.Remove(t.Context(), d.path("ws"), "user:op", palyra.Signature{}); err == nil {
		t.Error("removed without a line")
	}
	if list, _ := d.List(t.Context()); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func TestNames(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{strings.Repeat("x", 129), "a\nb", "\u202e", "\x1b[1m"} {
		if _, err := d.Add(t.Context(), d.path("ws"), name, "user:op", palyra.Signature{}); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A root daemon works as the directory's owner: it must not lend that to others.
func TestOtherPeoplesDirectories(t *testing.T) {
	d := newDesk(t)
	if os.Geteuid() != 0 {
		d.euid = 0 // as if; the files are nobody's
	}
	owner := int64(os.Geteuid())
	if owner == 0 {
		owner = nobody
		for _, dir := range []string{"ws", "ws/sub"} {
			d.ok(os.Chown(d.path(dir), nobody, nobody))
		}
	}
	const other = 12345
	if ref, err := d.Resolve(t.Context(), d.path("ws"), owner); err != nil || ref.Owner != owner || ref.Known {
		t.Errorf("the owner: %+v, %v", ref, err)
	}
	if ref, err := d.Resolve(t.Context(), d.path("ws"), 0); err != nil || ref.Owner != owner {
		t.Errorf("root: %+v, %v", ref, err)
	}
	for _, peer := range []int64{other, -1} {
		if ref, err := d.Resolve(t.Context(), d.path("ws"), peer); palyra.AsError(err).Reason != palyra.ReasonWorkspaceDenied {
			t.Errorf("uid %d: %+v, %v", peer, ref, err)
		}
	}
	_, err := d.Add(t.Context(), d.path("ws"), "", "user:op", palyra.Signature{})
	d.ok(err)
	if ref, err := d.Resolve(t.Context(), d.path("ws/sub"), other); err != nil || !ref.Known || ref.Owner != owner {
		t.Errorf("registered: %+v, %v", ref, err)
	}
	if os.Geteuid() == 0 { // a directory of another owner inside is not what was registered
		d.ok(os.Chown(d.path("ws/sub"), 1, 1))
		if ref, err := d.Resolve(t.Context(), d.path("ws/sub"), 1); err != nil || ref.Known || ref.Owner != 1 {
			t.Errorf("another's inside: %+v, %v", ref, err)
		}
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	d := newDesk(t)
	for _, c := range []Config{
		{},
		{DB: d.DB, Journal: d.journal, Now: time.Now},
		{DB: d.DB, Journal: d.journal, Now: time.Now, Own: []string{"rel"}},
		{DB: d.DB, Journal: d.journal, Now: time.Now, Own: []string{d.path("ws"), ""}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Resolve(ctx, d.path("ws"), d.peer()); err == nil {
		t.Error("resolved for a caller who is gone")
	}
}

func TestHidden(t *testing.T) {
	for dir, want := range map[string]bool{
		"/w": false, "/w/a/b": false, "/w/a.git": false, "/w/.git": true, "/w/a/.github/x": true, "/w/GIT~1": true, "/w/\u200c.git": true,
		"/v": true,
	} {
		if got := hidden("/w", dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
	if hidden("/w/.claude/tree", "/w/.claude/tree/src") { // it was registered itself
		t.Error("what is above the registered directory counts")
	}
}
