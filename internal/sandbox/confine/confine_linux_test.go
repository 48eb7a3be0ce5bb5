package confine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/local"
)

// places are looked at once for all tests: none is about them.
var places local.Places

func TestMain(m *testing.M) {
	if what := os.Getenv(probeVar); what != "" {
		os.Exit(probe(what))
	}
	code := m.Run()
	celltest.Clean()
	os.Exit(code)
}

func config(t testing.TB) Config {
	t.Helper()
	path, digest := celltest.Cell(t)
	return Config{Cell: path, Digest: digest, StateID: celltest.StateID(), Places: &places, Log: celltest.Log(t)}
}

// open returns a backend that is closed with the test and leaves nothing behind.
func open(t testing.TB, c Config) *Driver {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		celltest.NoneLeft(t, b.fleet.Groups.Dirs())
	})
	return b
}

// stage is the directories of a run and what it prints.
type stage struct {
	t                  testing.TB
	workspace, private string
	uid, gid           int
	printed            func() string // what the last run wrote
}

func newStage(t testing.TB) *stage {
	t.Helper()
	uid, gid := celltest.Whom(t)
	return stageFor(t, uid, gid)
}

func stageFor(t testing.TB, uid, gid int) *stage {
	t.Helper()
	dir := celltest.TempDir(t)
	s := &stage{t: t, workspace: filepath.Join(dir, "workspace"), private: filepath.Join(dir, "private"), uid: uid, gid: gid}
	for _, d := range []string{dir, s.workspace, s.private, s.private + "/home", s.private + "/tmp", s.private + "/exe"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if d != dir {
			if err := os.Chown(d, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// job prepares a program, whose output goes into a file.
func (s *stage) job(argv ...string) sandbox.Job {
	s.t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		s.t.Fatal(err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		s.t.Fatal(err)
	}
	in, both, printed := celltest.Streams(s.t)
	s.printed = printed
	return sandbox.Job{
		Call: "call", Path: path, Argv: argv, Cwd: s.workspace, Workspace: s.workspace, Private: s.private,
		Env: []string{
			"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME=" + s.private + "/home", "TMPDIR=" + s.private + "/tmp", "LANG=C.UTF-8",
		},
		UID: int64(s.uid), GID: int64(s.gid), Stdin: in, Stdout: both, Stderr: both,
		Limits: palyra.Limits{MemoryBytes: 1 << 30, Processes: 128, CPUMS: 60_000},
	}
}

// script runs sh -c and returns the exit code and what it printed.
func (s *stage) script(b *Driver, text string) (int, string) {
	s.t.Helper()
	e := celltest.Run(s.t, b, s.job("/bin/sh", "-c", text))
	return e.Code, s.printed()
}

func TestFirstProgram(t *testing.T) {
	b := open(t, config(t))
	e, err := b.Probe(context.Background(), palyra.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	j := s.job("/bin/sh", "-c", "echo hello; id -u; pwd; exit 3")
	j.Expect = e
	x := celltest.Run(t, b, j)
	if x.Code != 3 || x.Signal != "" || x.Limit != "" || x.Stopped != "" || x.Left != 0 {
		t.Errorf("exit %+v", x)
	}
	if want := fmt.Sprintf("hello\n%d\n%s", s.uid, s.workspace); s.printed() != want {
		t.Errorf("printed %q, want %q", s.printed(), want)
	}
}
