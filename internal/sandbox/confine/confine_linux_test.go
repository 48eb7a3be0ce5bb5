package confine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
)

// Variables by which a test process that became an ordinary user finds what root
// built for it.
const (
	cellVar = "PALYRA_TEST_CELL"
	baseVar = "PALYRA_TEST_BASE"
)

// built is the cell under test; base is a directory that every user can enter.
var built, base string

func TestMain(m *testing.M) {
	if what := os.Getenv(probeVar); what != "" {
		os.Exit(probe(what))
	}
	code, err := func() (int, error) {
		if built, base = os.Getenv(cellVar), os.Getenv(baseVar); built != "" {
			return m.Run(), nil
		}
		var err error
		if base, err = os.MkdirTemp("", "palyra-confine-"); err != nil {
			return 1, err
		}
		defer func() { _ = os.RemoveAll(base) }()
		if err := os.Chmod(base, 0o711); err != nil {
			return 1, err
		}
		built = filepath.Join(base, "palyra-cell")
		cmd := exec.Command("go", "build", "-o", built, "palyra/cmd/palyra-cell")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build the cell: %w\n%s", err, out)
		}
		return m.Run(), nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// digestOf is what the build would have stamped.
func digestOf(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

var states struct {
	sync.Mutex
	n int
}

// stateOf is a state id that no other test has.
func stateOf() string {
	states.Lock()
	defer states.Unlock()
	states.n++
	return fmt.Sprintf("test-%d-%d", os.Getpid(), states.n)
}

func config(t testing.TB) Config {
	return Config{Cell: built, Digest: digestOf(t, built), StateID: stateOf(), Log: slog.New(slog.NewTextHandler(logWriter{t}, nil))}
}

// open returns a backend that is closed with the test and leaves nothing behind.
func open(t testing.TB, c Config) *Backend {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range b.fleet.Groups.Dirs() {
			if _, err := os.Stat(d); err == nil {
				t.Errorf("the cgroup %s is left behind", d)
			}
		}
	})
	return b
}

// ordinary is the user for whom tests run what root would not be stopped from.
var ordinary = sync.OnceValues(func() (*user.User, error) {
	const name = "palyra-test"
	if u, err := user.Lookup(name); err == nil {
		return u, nil
	}
	if out, err := exec.Command("useradd", "--system", "--no-create-home", "--shell", "/bin/sh", name).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("useradd: %w: %s", err, out)
	}
	return user.Lookup(name)
})

// whom returns the uid and gid that a run gets here: an ordinary user's always.
func whom(t testing.TB) (uid, gid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Geteuid(), os.Getegid()
	}
	u, err := ordinary()
	if err != nil {
		t.Fatal(err)
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid
}

// stage is the directories of a run and what it prints.
type stage struct {
	t                  testing.TB
	workspace, private string
	uid, gid           int
	out                *os.File
}

func newStage(t testing.TB) *stage {
	t.Helper()
	uid, gid := whom(t)
	return stageFor(t, uid, gid)
}

func stageFor(t testing.TB, uid, gid int) *stage {
	t.Helper()
	dir, err := os.MkdirTemp(base, "stage-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
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
	in, err := os.Open(os.DevNull)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.out, err = os.CreateTemp(s.t.TempDir(), "out"); err != nil {
		s.t.Fatal(err)
	}
	out, err := syscall.Dup(int(s.out.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	both := os.NewFile(uintptr(out), "both")
	return sandbox.Job{
		Call: "call", Path: path, Argv: argv, Cwd: s.workspace, Workspace: s.workspace, Private: s.private,
		Env: []string{
			"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME=" + s.private + "/home", "TMPDIR=" + s.private + "/tmp", "LANG=C.UTF-8",
		},
		UID: int64(s.uid), GID: int64(s.gid), Stdin: in, Stdout: both, Stderr: both,
		Limits: palyra.Limits{MemoryBytes: 1 << 30, Processes: 128, CPUMS: 60_000},
	}
}

// printed is what the run wrote.
func (s *stage) printed() string {
	s.t.Helper()
	b, err := os.ReadFile(s.out.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(bytes.TrimSpace(b))
}

// run runs a job to its end.
func run(t testing.TB, b *Backend, j sandbox.Job) sandbox.Exit {
	t.Helper()
	p, err := b.Start(t.Context(), j)
	if err != nil {
		t.Fatalf("start: %v (%v)", err, palyra.AsError(err).Cause)
	}
	return wait(t, p)
}

func wait(t testing.TB, p sandbox.Process) sandbox.Exit {
	t.Helper()
	e, err := p.Wait()
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return e
}

// script runs sh -c and returns the exit code and what it printed.
func (s *stage) script(b *Backend, text string) (int, string) {
	s.t.Helper()
	e := run(s.t, b, s.job("/bin/sh", "-c", text))
	return e.Code, s.printed()
}

// until polls for something that another process brings about.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.After(20 * time.Second); !f(); {
		if !cells.Pause(2*time.Millisecond, end) {
			t.Fatalf("never: %s", what)
		}
	}
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
	x := run(t, b, j)
	if x.Code != 3 || x.Signal != "" || x.Limit != "" || x.Stopped != "" || x.Left != 0 {
		t.Errorf("exit %+v", x)
	}
	if want := fmt.Sprintf("hello\n%d\n%s", s.uid, s.workspace); s.printed() != want {
		t.Errorf("printed %q, want %q", s.printed(), want)
	}
}
