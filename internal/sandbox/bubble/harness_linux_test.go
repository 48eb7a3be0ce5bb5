package bubble

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/local"
	"palyra/internal/seal"
)

// What the tests of all tiers with cells do alike.
var (
	tempDir    = celltest.TempDir
	waitFor    = celltest.Wait
	eventually = celltest.Until
)

// TestMain removes what the tests share.
func TestMain(m *testing.M) {
	if what := os.Getenv(daemonVar); what != "" {
		os.Exit(daemon(what))
	}
	code := m.Run()
	celltest.Clean()
	os.Exit(code)
}

// places are looked at once for all tests but those about them.
var places local.Places

// configOf is a backend's configuration with directories of its own.
func configOf(t testing.TB) Config {
	t.Helper()
	path, digest := celltest.Cell(t)
	dir := tempDir(t)
	return Config{
		Cell: path, Digest: digest, StateID: celltest.StateID(), Tmp: 64 << 20,
		Dir: filepath.Join(dir, "records"), Quarantine: filepath.Join(dir, "quarantine"), Stages: filepath.Join(dir, "stages"),
		Places: &places, Log: celltest.Log(t),
	}
}

// openBackend returns one that is closed with the test and leaves nothing behind.
func openBackend(t testing.TB, c Config) *Backend {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		held := func(call palyra.CallID) bool { return b.stages.all.Held(string(call)) }
		_ = b.DropHeld(context.Background(), held) // words of what became of changes
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		celltest.NoneLeft(t, b.fleet.Groups.Dirs())
		if left, _ := os.ReadDir(c.Dir); len(left) > 0 && !t.Failed() {
			t.Errorf("records are left behind: %v", left)
		}
		if exists(c.Stages) && !t.Failed() { // it goes when nothing is in it
			t.Error("a stage is left behind")
		}
	})
	return b
}

// records are those that there are.
func records(c Config) (names []string) {
	all, _ := os.ReadDir(c.Dir)
	for _, e := range all {
		state, _, _, err := readRecord(filepath.Join(c.Dir, e.Name()))
		if filepath.Ext(e.Name()) == recordEnds && (err != nil || state != recordDone) {
			names = append(names, e.Name())
		}
	}
	return names
}

// site is a workspace, and what runs in it print.
type site struct {
	t         testing.TB
	who       celltest.Resident
	workspace string
	staged    bool          // what runs write is kept apart until they have ended
	printed   func() string // what the last run wrote
}

func newSite(t testing.TB, who celltest.Resident) *site {
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
	if err := os.Lchown(path, int(s.who.UID), int(s.who.GID)); err != nil {
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
	in, both, printed := celltest.Streams(s.t)
	s.printed = printed
	seals := seal.Default
	if s.staged { // what it does to them is judged
		seals = nil
	}
	return sandbox.Job{
		Call: "call", Path: argv[0], Argv: argv, Cwd: s.workspace, Workspace: s.workspace, Seals: seals,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME=/home/agent", "TMPDIR=/tmp", "LANG=C.UTF-8"},
		UID: s.who.UID, GID: s.who.GID, Staged: s.staged, Stdin: in, Stdout: both, Stderr: both,
		Limits: palyra.Limits{MemoryBytes: 512 << 20, Processes: 128, CPUMS: 60_000},
	}
}

// runJob runs a job to its end.
func runJob(t testing.TB, b *Backend, j sandbox.Job) sandbox.Exit {
	t.Helper()
	return celltest.Run(t, b, j)
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
	p := celltest.Start(s.t, b, s.job("/bin/sh", "-c", script))
	eventually(s.t, "ready", func() bool { return strings.Contains(s.printed(), "ready") })
	return p
}

// lives reports whether a process is there and not only waits to be reaped.
func lives(pid int) bool {
	st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(st), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}
