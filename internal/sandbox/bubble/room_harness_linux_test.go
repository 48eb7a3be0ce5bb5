package bubble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/exetest"
	"palyra/internal/sandbox/celltest"
)

// Who a room is for, in tests: as root for an ordinary user and for root itself,
// as an ordinary user for oneself.
type resident struct {
	name     string
	uid, gid int64
}

const asOrdinary = "PALYRA_TEST_ROOM_AS_USER"

func ordinary() resident {
	s := resident{name: "user", uid: 65534, gid: 65534}
	if uid, gid, err := celltest.Ordinary(); err == nil {
		s.uid, s.gid = int64(uid), int64(gid)
	}
	return s
}

func residents() []resident {
	if os.Geteuid() != 0 {
		return []resident{{name: "self", uid: int64(os.Geteuid()), gid: int64(os.Getegid())}}
	}
	return []resident{ordinary(), {name: "root", uid: 0, gid: 0}}
}

// eachResident runs a test for all of them.
func eachResident(t *testing.T, f func(t *testing.T, s resident)) {
	t.Helper()
	for _, s := range residents() {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

// TestRoomsAsAnOrdinaryUser runs the other tests a second time without root.
func TestRoomsAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	who := ordinary()
	roomAgain(t, "^Test(Room|Bwrap)", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}}, asOrdinary+"=1")
}

// wasThere is what tests log that another process runs, so that none of them
// passes by not being there.
const wasThere = "this is another process"

// roomAgain runs tests of this binary in another process.
func roomAgain(t *testing.T, run string, attr *syscall.SysProcAttr, env ...string) {
	t.Helper()
	dir := openDir(t, 0o755)
	bin := filepath.Join(dir, "bubble.test")
	if err := errors.Join(exetest.Copy(bin, os.Args[0]), os.Chmod(bin, 0o755)); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-test.run", run, "-test.v", "-test.count=1")
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "TMPDIR="+tmp, "HOME=/nonexistent")
	cmd.Dir, cmd.SysProcAttr = dir, attr
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(wasThere)) {
		t.Errorf("in another process: %v\n%s", err, out)
	}
}

// openDir makes a directory that everybody can pass through, which t.TempDir is
// not.
func openDir(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := tempDir(t)
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil { // a mount that stayed, for one
			t.Error(err)
		}
	})
	return dir
}

// workspaceOf makes a workspace of somebody at path, which is made as well.
func workspaceOf(t *testing.T, s resident, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, int(s.uid), int(s.gid)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// newRoom is a room with an empty workspace.
func newRoom(t *testing.T, s resident) room {
	t.Helper()
	ws := workspaceOf(t, s, filepath.Join(openDir(t, 0o755), "ws"))
	return room{uid: s.uid, gid: s.gid, workspace: ws, tmp: 4 << 20}
}

func theBwrap(t *testing.T) *bwrap {
	t.Helper()
	b, no := findBwrap("")
	if no != nil {
		t.Fatalf("%v: %s (%v)", no, no.Remedy, no.Cause)
	}
	t.Cleanup(b.close)
	if os.Getenv(privately) == "" { // there it is about what they hide
		b.local = &places
	}
	return b
}

// answer is what a program in a room said.
type answer struct {
	out, said string
	err       error
}

// inRoom runs a shell script as the cell of a room. between runs when the command
// is made and not yet started.
func inRoom(t *testing.T, r room, script string, between ...func()) answer {
	t.Helper()
	a, err := tryRoom(t, r, script, between...)
	if err != nil {
		t.Fatalf("command: %v", err)
	}
	return a
}

// tryRoom is inRoom where no command may come of it. As a backend does, it tries again
// when /opt or /usr/local changed meanwhile: the tests of other packages plant things there.
func tryRoom(t *testing.T, r room, script string, between ...func()) (a answer, err error) {
	t.Helper()
	b := theBwrap(t)
	defer b.close()
	for range triesToBuild {
		was := b.local.Hidden()
		a, err = tryRoomOnce(t, b, r, script, between...)
		if err != nil || !strings.HasPrefix(a.said, "bwrap: ") || !b.local.Again(was) {
			break
		}
	}
	return a, err
}

func tryRoomOnce(t *testing.T, b *bwrap, r room, script string, between ...func()) (answer, error) {
	t.Helper()
	control, image := devNull(t), devNull(t)
	path, argv, env, extra, cleanup, err := b.command(r, image, control, nil, "mark-1")
	if err != nil {
		return answer{}, err
	}
	defer cleanup()
	for _, f := range between {
		f()
	}
	layPrivate(t, r, extra[len(extra)-1])
	argv = append(argv[:len(argv)-3:len(argv)-3], "/bin/sh", "-c", script)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	err = runWithin(ctx, &exec.Cmd{
		Path: path, Args: argv, Env: env, ExtraFiles: extra, Dir: "/", Stdout: &out, Stderr: &said, SysProcAttr: bwrapAttr(r.uid, r.gid),
	})
	return answer{out: out.String(), said: said.String(), err: err}, nil
}

// layPrivate has bubblewrap lay the file systems over a room's own places that the
// cell would, as far as it can: it bounds no names.
func layPrivate(t *testing.T, r room, args *os.File) {
	t.Helper()
	b, err := io.ReadAll(args)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, p := range r.private() {
		word := fmt.Sprintf("\x00%04o\x00--dir\x00%s\x00", p.Mode, p.Path)
		if strings.Count(text, word) != 1 {
			t.Fatalf("%q is not in the arguments once", word)
		}
		text = strings.Replace(text, word, fmt.Sprintf("\x00%04o\x00--size\x00%d\x00--tmpfs\x00%s\x00", p.Mode, p.Bytes, p.Path), 1)
	}
	if _, err := args.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := args.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// says runs a script that must succeed and returns what it printed.
func says(t *testing.T, r room, script string) string {
	t.Helper()
	a := inRoom(t, r, "set -e\n"+script)
	if a.err != nil {
		t.Fatalf("in the room: %v\n%s%s", a.err, a.out, a.said)
	}
	return strings.TrimSpace(a.out)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func mustWrite(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}
