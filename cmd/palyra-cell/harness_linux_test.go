package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
)

// The cell and this test program again, where every user may execute them.
var (
	built  string // palyra-cell
	mirror string // the test program, which is the program that cells run
)

// ordinary is a user whom no password file needs to know.
const ordinary = 61234

// The test program is also what it tests: without arguments of go test it is the
// program inside the cell, or a cell without signal scope and its launcher.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise-unscoped" {
		os.Exit(supervise(os.Stderr, false, os.Args[2:]...))
	}
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "inside:") {
		os.Exit(inside(strings.TrimPrefix(os.Args[1], "inside:"), os.Args[2:]))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "palyra-cell")
	if err != nil {
		return refuse(os.Stderr, err.Error())
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built, mirror = filepath.Join(dir, "palyra-cell"), filepath.Join(dir, "inside")
	// The copy is made anew, not taken: it must need nothing but itself.
	for _, args := range [][]string{{"build", "-o", built, "."}, {"test", "-c", "-o", mirror, "."}} {
		build := exec.Command("go", args...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return refuse(os.Stderr, string(out))
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(mirror, 0o755), os.Chmod(built, 0o755)); err != nil {
		return refuse(os.Stderr, err.Error())
	}
	return m.Run()
}

// who runs the cell.
type who struct {
	name     string
	uid      int
	unscoped bool
	direct   bool // the launcher becomes its user first, and has its run from the daemon
}

// each runs a test for every user that this machine lets us be, and for the ways
// a hand can work.
func each(t *testing.T, f func(t *testing.T, w who)) {
	t.Helper()
	users := []who{{name: "user", uid: os.Getuid()}, {name: "user unscoped", uid: os.Getuid(), unscoped: true}}
	if os.Getuid() == 0 {
		users = []who{
			{name: "root"},
			{name: "user", uid: ordinary},
			{name: "root unscoped", unscoped: true},
			{name: "user unscoped", uid: ordinary, unscoped: true},
		}
	}
	users = append(users, who{name: "direct", uid: os.Getuid(), direct: true})
	for _, w := range users {
		t.Run(w.name, func(t *testing.T) {
			if !w.unscoped && ruleset.ABI() < ruleset.ScopeABI {
				t.Skip("UNPROVEN HERE: this kernel's Landlock cannot scope signals")
			}
			t.Parallel()
			f(t, w)
		})
	}
}

// me is who the tests are, with the hand as it works on this kernel.
var me = who{name: "me", uid: os.Getuid()}

// speaker is a daemon's end of what is under test.
type speaker interface {
	Send(o cell.Order, fds ...int) error
	Recv(r *cell.Report) ([]*os.File, error)
	Close() error
}

// held is a cell under test, or a room.
type held struct {
	t    *testing.T
	conn speaker
	cmd  *exec.Cmd

	line *cell.Conn // to its launcher; nil: that has its run from its cell

	template  *cell.Template // of a room; nil: it is none
	made      cell.Made
	uncovered cell.Report // why a program was not laid over its path
	ready     cell.Report
	watch     *cell.Watch // what a template is to hold a room to when its program runs; nil: nothing, or it knows
	log       bytes.Buffer

	stdin          *os.File
	stdout, stderr chan string
}

func start(t *testing.T, w who) *held {
	t.Helper()
	var line *cell.Conn
	h := startWith(t, func(c *exec.Cmd) {
		if w.unscoped {
			c.Path, c.Args = mirror, []string{mirror, "supervise-unscoped"}
		}
		if w.direct {
			line = launchSocket(t, c)
		}
		if w.uid != os.Getuid() {
			c.SysProcAttr.Credential = credential(w.uid)
		}
	})
	h.line = line
	return h
}

// connected is a socket of the daemon's, and its other end.
func connected(t testing.TB) (conn *cell.Conn, theirs *os.File) {
	t.Helper()
	ours, theirs, err := cell.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if conn, err = cell.NewConn(ours); err != nil {
		t.Fatal(err)
	}
	return conn, theirs
}

// launchSocket gives a cell's launcher a socket to the daemon, whose end it returns.
func launchSocket(t testing.TB, c *exec.Cmd) *cell.Conn {
	t.Helper()
	conn, theirs := connected(t)
	t.Cleanup(func() { _ = conn.Close(); _ = theirs.Close() })
	c.Args, c.ExtraFiles = append(c.Args, cell.LaunchArg), append(c.ExtraFiles, theirs)
	return conn
}

// startWith starts a cell whose command change may change.
func startWith(t *testing.T, change func(*exec.Cmd)) *held {
	t.Helper()
	conn, theirs := connected(t)
	h := &held{t: t, conn: cell.Orders{Conn: conn}, cmd: exec.Command(built, "supervise")}
	h.cmd.Env, h.cmd.ExtraFiles, h.cmd.Stderr = []string{}, []*os.File{theirs}, &h.log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	change(h.cmd)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	t.Cleanup(func() {
		_ = conn.Close()
		_ = h.cmd.Wait()
		if h.log.Len() > 0 {
			t.Errorf("the cell wrote: %s", h.log.String())
		}
	})
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	h.ready = h.next()
	if h.ready.Kind != cell.ReportReady || h.ready.Version != cell.Version || h.ready.Launcher <= 0 {
		t.Fatalf("first report: %+v", h.ready)
	}
	return h
}

// next is the next report; of kind "" when the cell is gone.
func (h *held) next() cell.Report {
	h.t.Helper()
	var r cell.Report
	files, err := h.conn.Recv(&r)
	if errors.Is(err, io.EOF) {
		return cell.Report{}
	}
	if err != nil || len(files) > 0 {
		h.t.Fatalf("report with %d files: %v", len(files), err)
	}
	if w := h.watch; w != nil && r.Kind == cell.ReportStarted {
		h.watch = nil
		if err := h.template.Watch(h.made.Room, *w); err != nil {
			h.t.Fatal(err)
		}
	}
	return r
}

// expect reads the next report and checks its kind.
func (h *held) expect(kind cell.ReportKind) cell.Report {
	h.t.Helper()
	r := h.next()
	if r.Kind != kind {
		h.t.Fatalf("report %+v, want %q; log: %s", r, kind, h.log.String())
	}
	return r
}

// code waits for the cell's own end. A room's is that of its first process, which says nothing.
func (h *held) code() int {
	h.t.Helper()
	h.expect("")
	if h.template != nil {
		until(h.t, "the end of the room", func() bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(h.made.First.Fd()), Events: unix.POLLIN}}, 0)
			return n > 0
		})
		return 0
	}
	_ = h.cmd.Wait()
	return h.cmd.ProcessState.ExitCode()
}

func (h *held) send(o cell.Order, fds ...int) {
	h.t.Helper()
	if err := h.conn.Send(o, fds...); err != nil {
		h.t.Fatal(err)
	}
}

// order sends a run with pipes, and the program when there is one.
func (h *held) order(s cell.Spec, program ...*os.File) {
	h.t.Helper()
	in, stdin := pipe(h.t)
	stdout, out := pipe(h.t)
	stderr, errs := pipe(h.t)
	h.stdin, h.stdout, h.stderr = stdin, drain(stdout), drain(stderr)
	h.orderWith(s, append([]*os.File{in, out, errs}, program...)...)
}

// orderWith sends a run with the descriptors given, and closes them.
func (h *held) orderWith(s cell.Spec, files ...*os.File) {
	h.t.Helper()
	if h.line != nil {
		h.become(s)
		h.give(s, s, files...)
		return
	}
	write := cell.WriteSpec
	if h.template != nil {
		write = cell.WriteImage
		if files = h.furnish(s, files); files == nil {
			return
		}
	}
	spec, err := write(s)
	if err != nil {
		h.t.Fatal(err)
	}
	files = append([]*os.File{spec}, files...)
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	h.send(cell.Order{Kind: cell.OrderRun}, fds...)
	cell.CloseAll(files)
}

// become has the launcher become who a Spec says.
func (h *held) become(s cell.Spec) {
	h.t.Helper()
	s.Rlimits = nil
	h.send(cell.Order{Kind: cell.OrderBecome}, int(specFile(h.t, s).Fd()))
}

// give hands a run to a launcher that became whom another Spec says, and closes the descriptors.
func (h *held) give(s, became cell.Spec, files ...*os.File) {
	h.t.Helper()
	defer cell.CloseAll(files)
	became.Rlimits = nil
	image, err := cell.Given(&s, &became)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = image.Close() }()
	var rules ruleset.Set
	defer rules.Forget()
	if err := rules.Complete(&s.Landlock); err != nil {
		h.t.Fatal(err)
	}
	_ = h.conn.Send(cell.Order{Kind: cell.OrderWatch, Watch: &s.Watch}) // a cell that has ended said why
	fds := []int{rules.FD()}
	for i, f := range files {
		if fds = append(fds, int(f.Fd())); i == 2 {
			fds = append(fds, int(image.Fd()))
		}
	}
	_ = h.line.SendBytes([]byte{cell.LineRun}, fds...)
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

// drain reads to the end. Everyone who holds the other end must be gone by then.
func drain(f *os.File) chan string {
	c := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(f)
		c <- string(b)
	}()
	return c
}

// finished runs s to its end and returns its exit, its end and its output.
func finished(t *testing.T, w who, s cell.Spec) (exited, ended cell.Report, out string) {
	t.Helper()
	h := start(t, w)
	h.order(s)
	h.expect(cell.ReportStarted)
	exited, ended = h.expect(cell.ReportExited), h.expect(cell.ReportEnded)
	if code := h.code(); code != 0 {
		t.Errorf("the cell ended with %d", code)
	}
	return exited, ended, <-h.stdout + <-h.stderr
}

func credential(uid int) *syscall.Credential {
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
}
