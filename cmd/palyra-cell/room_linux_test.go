package main

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

const bubblewrap = "/usr/bin/bwrap"

// roomUsers are those for whom rooms are built: root, who is somebody else
// inside, and an ordinary user.
func roomUsers() []who {
	if os.Getuid() != 0 {
		return []who{{name: "user", uid: os.Getuid()}}
	}
	return []who{{name: "root"}, {name: "user", uid: ordinaryID()}}
}

// ordinaryID is an account of this machine, if there is one for tests. (The
// library's own lookup would make this program a dynamic one.)
func ordinaryID() int {
	b, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[0] == "palyra-test" {
			if uid, err := strconv.Atoi(f[2]); err == nil {
				return uid
			}
		}
	}
	return ordinary
}

func eachRoom(t *testing.T, f func(t *testing.T, w who)) {
	t.Helper()
	for _, w := range roomUsers() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			f(t, w)
		})
	}
}

// workspace is a directory of w's with files in it, given as paths; those that
// end with a slash are directories.
func workspace(t *testing.T, w who, paths ...string) string {
	t.Helper()
	dir := public(t)
	for _, p := range append([]string{"./"}, paths...) {
		full := filepath.Join(dir, p)
		var err error
		if p[len(p)-1] == '/' {
			err = os.MkdirAll(full, 0o755)
		} else {
			err = os.WriteFile(full, []byte("first "+p), 0o644)
		}
		if err = errors.Join(err, os.Lchown(full, w.uid, w.uid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// seals are those of paths, as they are now.
func seals(t *testing.T, dir string, readOnly map[string]bool, paths ...string) (all []cell.Seal) {
	t.Helper()
	for _, p := range paths {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, p), &st); err != nil {
			t.Fatal(err)
		}
		all = append(all, cell.Seal{Path: p, ReadOnly: readOnly[p], Dev: st.Dev, Ino: st.Ino})
	}
	return all
}

// plain is a room with nothing special in it.
func plain(dir string) cell.Room {
	s := shell("")
	return cell.Room{Version: cell.Version, Workspace: dir, Landlock: s.Landlock, Filter: s.Filter}
}

// synthetic is the range of addresses that lead to doors.
const synthetic = "198.18.0.0/15"

func doorAt(addr string) cell.Listener { return cell.Listener{Addr: netip.MustParseAddrPort(addr)} }

// image is the cell as a sealed memfd, as daemons keep it: made once.
var image = sync.OnceValues(func() (*os.File, error) {
	b, err := os.ReadFile(built)
	if err != nil {
		return nil, err
	}
	return sealedMemory(b)
})

func sealedMemory(b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "image")
	if _, err := f.Write(b); err != nil {
		return nil, err
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	return f, err
}

// sealedFile is a program as daemons hand it in.
func sealedFile(t *testing.T, b []byte) *os.File {
	t.Helper()
	f, err := sealedMemory(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// bwrapArgs are bubblewrap's for a template around dir; the cell is its descriptor 4.
func bwrapArgs(w who, dir string) []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try",
		"--cap-add", "ALL", "--as-pid-1", "--new-session", "--hostname", "palyra.test",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--tmpfs", "/dev", "--dir", "/dev/shm", "--dir", "/dev/pts", "--symlink", "pts/ptmx", "/dev/ptmx",
		"--symlink", "/proc/self/fd/0", "/dev/stdin", "--symlink", "/proc/self/fd/1", "/dev/stdout",
		"--symlink", "/proc/self/fd/2", "/dev/stderr",
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		args = append(args, "--dev-bind", "/dev/"+name, "/dev/"+name)
	}
	args = append(args, "--proc", "/proc", "--tmpfs", "/tmp", "--dir", "/run/secret",
		"--ro-bind", mirror, mirror, "--bind", dir, dir, "--remount-ro", "/")
	if w.uid == 0 {
		args = append(args, "--uid", "1000", "--gid", "1000")
	}
	return append(args, "--", "/proc/self/fd/4", cell.InsideArg, "test-mark")
}

// enterRoom starts a template in bubblewrap. Nothing is built yet.
func enterRoom(t testing.TB, w who, dir string, args ...string) (*cell.Template, *exec.Cmd, *bytes.Buffer) {
	t.Helper()
	conn, theirs := connected(t)
	if len(args) == 0 {
		args = bwrapArgs(w, dir)
	}
	program, err := image()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := exec.Command(bubblewrap, args...)
	c.Env, c.ExtraFiles, c.Stderr = []string{}, []*os.File{theirs, program}, &log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if w.uid != os.Getuid() {
		c.SysProcAttr.Credential = credential(w.uid)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	template := cell.NewTemplate(conn)
	t.Cleanup(func() { _ = template.Close(); _ = c.Wait() })
	if r, err := template.Ready(t.Context()); err != nil || r.Kind != cell.ReportReady || r.Version != cell.Version {
		t.Fatalf("%+v, %v; log: %s", r, err, log.String())
	}
	return template, c, &log
}

// tryRoom starts a template in bubblewrap and has a room built. extra are the
// descriptors that the room names.
func tryRoom(t *testing.T, w who, r cell.Room, extra ...*os.File) (h *held, first cell.Report, doors []*os.File) {
	t.Helper()
	template, c, _ := enterRoom(t, w, r.Workspace)
	h = &held{t: t, cmd: c, template: template}
	first = h.build(r, extra...)
	return h, first, h.made.Doors
}

// build has a room built, and confined.
func (h *held) build(r cell.Room, extra ...*os.File) cell.Report {
	h.t.Helper()
	ours, theirs, err := cell.Pair()
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	conn, err := cell.NewConn(ours)
	if err != nil {
		h.t.Fatal(err)
	}
	line := cell.NewLine(conn)
	h.conn = line
	over := func(r cell.Report) { _ = line.Send(cell.Order{Kind: cell.OrderLimit, Reason: r.Limit}) }
	made, first, err := h.template.Build(h.t.Context(), r, theirs, extra, over)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.made = made; first.Kind != cell.ReportBuilt {
		return first
	}
	h.t.Cleanup(func() {
		_ = line.Close()
		cell.CloseAll(append(append([]*os.File{made.First}, made.Doors...), made.Copies...))
	})
	_ = theirs.Close()
	h.send(cell.Order{Kind: cell.OrderConfine})
	h.expect(cell.ReportReady)
	return first
}

// furnish does what comes before a run in a room: it covers the program, and has the limits watched.
func (h *held) furnish(s cell.Spec, files []*os.File) []*os.File {
	h.t.Helper()
	h.watch = &s.Watch // once it runs: a room that is over a limit before would end before its program has begun
	if !s.Sealed {
		return files
	}
	r, err := h.template.Cover(h.t.Context(), h.made.Room, s.Path, files[3])
	if err != nil {
		h.t.Fatal(err)
	}
	if r.Kind != cell.ReportCovered {
		h.uncovered = r
		cell.CloseAll(files)
		return nil
	}
	return files[:3]
}

// inhabit is tryRoom that must work.
func inhabit(t *testing.T, w who, r cell.Room, extra ...*os.File) (*held, []*os.File) {
	t.Helper()
	h, first, doors := tryRoom(t, w, r, extra...)
	if first.Kind != cell.ReportBuilt || first.Version != cell.Version || len(doors) != len(r.Listeners) {
		t.Fatalf("%+v with %d doors", first, len(doors))
	}
	return h, doors
}

// runs runs s to its end in the cell and returns what it printed.
func (h *held) runs(s cell.Spec, program ...*os.File) (out string, ended cell.Report) {
	h.t.Helper()
	h.order(s, program...)
	h.expect(cell.ReportStarted)
	h.expect(cell.ReportExited)
	ended = h.expect(cell.ReportEnded)
	if code := h.code(); code != 0 {
		h.t.Errorf("the cell ended with %d", code)
	}
	return <-h.stdout + <-h.stderr, ended
}

// inRoom runs a script in a room and returns what it printed.
func inRoom(t *testing.T, w who, r cell.Room, script string) string {
	t.Helper()
	h, _ := inhabit(t, w, r)
	s := shell(script)
	s.Cwd = r.Workspace
	out, _ := h.runs(s)
	return out
}

// raw has a room built, whose first process waits to be confined.
func (h *held) raw(r cell.Room) {
	h.t.Helper()
	ours, theirs, err := cell.Pair()
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	conn, err := cell.NewConn(ours)
	if err != nil {
		h.t.Fatal(err)
	}
	h.conn = cell.NewLine(conn)
	made, first, err := h.template.Build(h.t.Context(), r, theirs, nil, nil)
	if err != nil || first.Kind != cell.ReportBuilt {
		h.t.Fatalf("%+v, %v", first, err)
	}
	h.made = made
	h.t.Cleanup(func() { _ = conn.Close(); _ = made.First.Close() })
}
