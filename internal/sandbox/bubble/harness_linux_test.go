package bubble

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/seal"
)

// cellVar tells a test process that became an ordinary user which cell root built
// for it.
const cellVar = "PALYRA_TEST_CELL"

var made struct {
	sync.Once
	dir, cell, digest string
	err               error
	states            int
}

// TestMain removes what the tests share.
func TestMain(m *testing.M) {
	if what := os.Getenv(daemonVar); what != "" {
		os.Exit(daemon(what))
	}
	code := m.Run()
	if made.dir != "" {
		_ = os.RemoveAll(made.dir)
	}
	os.Exit(code)
}

// theCell is the cell under test, built once.
func theCell(t testing.TB) (path, digest string) {
	t.Helper()
	made.Do(func() {
		if made.cell = os.Getenv(cellVar); made.cell == "" {
			if made.dir, made.err = os.MkdirTemp("", "palyra-bubble-"); made.err != nil {
				return
			}
			made.cell = filepath.Join(made.dir, "palyra-cell")
			cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", made.cell, "palyra/cmd/palyra-cell")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				made.err = fmt.Errorf("build the cell: %w\n%s", err, out)
				return
			}
			made.err = os.Chmod(made.dir, 0o755)
		}
		b, err := os.ReadFile(made.cell)
		h := sha256.Sum256(b)
		made.digest, made.err = hex.EncodeToString(h[:]), errors.Join(made.err, err)
	})
	if made.err != nil {
		t.Fatal(made.err)
	}
	return made.cell, made.digest
}

type logTo struct{ t testing.TB }

func (w logTo) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// configOf is a backend's configuration with directories of its own.
func configOf(t testing.TB) Config {
	t.Helper()
	path, digest := theCell(t)
	made.states++
	dir := tempDir(t)
	return Config{
		Cell: path, Digest: digest, StateID: fmt.Sprintf("bubble-%d-%d", os.Getpid(), made.states), Tmp: 64 << 20,
		Dir: filepath.Join(dir, "records"), Quarantine: filepath.Join(dir, "quarantine"), Log: slog.New(slog.NewTextHandler(logTo{t}, nil)),
	}
}

// tempDir is a directory that everybody can pass through.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "palyra-bubble-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err = errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// openBackend returns one that is closed with the test and leaves nothing behind.
func openBackend(t testing.TB, c Config) *Backend {
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
		if left, _ := os.ReadDir(c.Dir); len(left) > 0 && !t.Failed() {
			t.Errorf("records are left behind: %v", left)
		}
	})
	return b
}

// records are those that there are.
func records(c Config) (names []string) {
	all, _ := os.ReadDir(c.Dir)
	for _, e := range all {
		if state, _, _, err := readRecord(filepath.Join(c.Dir, e.Name())); filepath.Ext(e.Name()) == recordEnds && (err != nil || state != recordDone) {
			names = append(names, e.Name())
		}
	}
	return names
}

// site is a workspace, and what runs in it print.
type site struct {
	t         testing.TB
	who       resident
	workspace string
	out       *os.File
}

func newSite(t testing.TB, who resident) *site {
	t.Helper()
	s := &site{t: t, who: who, workspace: filepath.Join(tempDir(t), "workspace")}
	s.dir("")
	return s
}

// dir makes a directory in the workspace, the owner's.
func (s *site) dir(rel string) {
	s.t.Helper()
	path := filepath.Join(s.workspace, rel)
	if err := os.MkdirAll(path, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for p := path; strings.HasPrefix(p, s.workspace); p = filepath.Dir(p) {
		s.own(p)
	}
}

func (s *site) own(path string) {
	s.t.Helper()
	if err := os.Lchown(path, int(s.who.uid), int(s.who.gid)); err != nil {
		s.t.Fatal(err)
	}
}

// file writes a file in the workspace, the owner's.
func (s *site) file(rel, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.workspace, rel), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.own(filepath.Join(s.workspace, rel))
}

// job prepares a program, whose output goes into a file.
func (s *site) job(argv ...string) sandbox.Job {
	s.t.Helper()
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
		Call: "call", Path: argv[0], Argv: argv, Cwd: s.workspace, Workspace: s.workspace, Seals: seal.Default,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME=/home/agent", "TMPDIR=/tmp", "LANG=C.UTF-8"},
		UID: s.who.uid, GID: s.who.gid, Stdin: in, Stdout: both, Stderr: both,
		Limits: palyra.Limits{MemoryBytes: 512 << 20, Processes: 128, CPUMS: 60_000},
	}
}

func (s *site) printed() string {
	s.t.Helper()
	b, err := os.ReadFile(s.out.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(bytes.TrimSpace(b))
}

// runJob runs a job to its end.
func runJob(t testing.TB, b *Backend, j sandbox.Job) sandbox.Exit {
	t.Helper()
	p, err := b.Start(t.Context(), j)
	if err != nil {
		t.Fatalf("start: %v (%v)", err, palyra.AsError(err).Cause)
	}
	return waitFor(t, p)
}

func waitFor(t testing.TB, p sandbox.Process) sandbox.Exit {
	t.Helper()
	e, err := p.Wait()
	if err != nil {
		t.Fatalf("wait: %v (%v)", err, palyra.AsError(err).Cause)
	}
	return e
}

// script runs sh -c and returns the exit code and what it printed.
func (s *site) script(b *Backend, text string) (int, string) {
	s.t.Helper()
	e := runJob(s.t, b, s.job("/bin/sh", "-c", text))
	return e.Code, s.printed()
}

// starts starts a script and waits until it has said "ready".
func (s *site) starts(b *Backend, script string) sandbox.Process {
	s.t.Helper()
	p, err := b.Start(s.t.Context(), s.job("/bin/sh", "-c", script))
	if err != nil {
		s.t.Fatalf("start: %v (%v)", err, palyra.AsError(err).Cause)
	}
	eventually(s.t, "ready", func() bool { return strings.Contains(s.printed(), "ready") })
	return p
}

// eventually polls for something that another process brings about.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.After(20 * time.Second); !f(); {
		if !cells.Pause(2*time.Millisecond, end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// lives reports whether a process is there and not only waits to be reaped.
func lives(pid int) bool {
	st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(st), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}
