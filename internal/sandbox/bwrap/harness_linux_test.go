package bwrap

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
	"palyra/internal/sandbox/local"
)

const asOrdinary = "PALYRA_TEST_ROOM_AS_USER"

// TestRoomsAsAnOrdinaryUser runs the other tests a second time without root.
func TestRoomsAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return
	}
	who := celltest.OrdinaryResident()
	roomAgain(t, "^Test(Room|Bwrap)", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID)}},
		asOrdinary+"=1")
}

// wasThere is what tests log that another process runs, so that none of them
// passes by not being there.
const wasThere = "this is another process"

// roomAgain runs tests of this binary in another process.
func roomAgain(t *testing.T, run string, attr *syscall.SysProcAttr, env ...string) {
	t.Helper()
	dir := openDir(t, 0o755)
	bin := filepath.Join(dir, "bwrap.test")
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
	dir := celltest.TempDir(t)
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
func workspaceOf(t *testing.T, s celltest.Resident, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, int(s.UID), int(s.GID)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// newRoom is a room with an empty workspace.
func newRoom(t *testing.T, s celltest.Resident) Room {
	t.Helper()
	ws := workspaceOf(t, s, filepath.Join(openDir(t, 0o755), "ws"))
	return Room{UID: s.UID, GID: s.GID, Workspace: ws, Tmp: 4 << 20}
}

// hostPlaces are looked at once for all tests but those about them.
var hostPlaces local.Places

func theBwrap(t *testing.T) *Program {
	t.Helper()
	b, no := Find("")
	if no != nil {
		t.Fatalf("%v: %s (%v)", no, no.Remedy, no.Cause)
	}
	t.Cleanup(b.Close)
	if os.Getenv(privately) == "" { // there it is about what they hide
		b.Places = &hostPlaces
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
func inRoom(t *testing.T, r Room, script string, between ...func()) answer {
	t.Helper()
	a, err := tryRoom(t, r, script, between...)
	if err != nil {
		t.Fatalf("command: %v", err)
	}
	return a
}

// tryRoom is inRoom where no command may come of it. As a backend does, it tries again
// when /opt or /usr/local changed meanwhile: the tests of other packages plant things there.
func tryRoom(t *testing.T, r Room, script string, between ...func()) (a answer, err error) {
	t.Helper()
	b := theBwrap(t)
	defer b.Close()
	for range 3 {
		was := b.Places.Hidden()
		a, err = tryRoomOnce(t, b, r, script, between...)
		if err != nil || !strings.HasPrefix(a.said, "bwrap: ") || !b.Places.Again(was) {
			break
		}
	}
	return a, err
}

func tryRoomOnce(t *testing.T, b *Program, r Room, script string, between ...func()) (answer, error) {
	t.Helper()
	control, image := devNull(t), devNull(t)
	c, err := b.Command(r, image, control, nil, "mark-1")
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	for _, f := range between {
		f()
	}
	layPrivate(t, r, c.Files[len(c.Files)-1])
	argv := append(c.Argv[:len(c.Argv)-3:len(c.Argv)-3], "/bin/sh", "-c", script)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	err = runWithin(ctx, &exec.Cmd{
		Path: c.Path, Args: argv, Env: c.Env, ExtraFiles: c.Files, Dir: "/", Stdout: &out, Stderr: &said, SysProcAttr: Attr(r.UID, r.GID),
	})
	return answer{out: out.String(), said: said.String(), err: err}, nil
}

// layPrivate has bubblewrap lay the file systems over a room's own places that the
// cell would, as far as it can: it bounds no names.
func layPrivate(t *testing.T, r Room, args *os.File) {
	t.Helper()
	b, err := io.ReadAll(args)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, p := range r.Private() {
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
func says(t *testing.T, r Room, script string) string {
	t.Helper()
	a := inRoom(t, r, "set -e\n"+script)
	if a.err != nil {
		t.Fatalf("in the room: %v\n%s%s", a.err, a.out, a.said)
	}
	return strings.TrimSpace(a.out)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
