package bubble

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/quarantine"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/template"
)

// unsafe makes every sweep that finds something fail, until safe is called.
func unsafe(t *testing.T, c Config) (safe func()) {
	t.Helper()
	if err := os.Chmod(c.Quarantine, 0o777); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Chmod(c.Quarantine, 0o700); err != nil {
			t.Error(err)
		}
	}
}

// closedTo checks that nothing may run in a workspace, and that who asks is told
// which one is in the way, which record, and what to do.
func closedTo(t *testing.T, b *Backend, s *site, c Config, workspace string) {
	t.Helper()
	_, err := b.Start(t.Context(), s.trueJob())
	e := palyra.AsError(err)
	if e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Text, workspace) || !strings.Contains(e.Remedy, c.Dir) ||
		!strings.Contains(e.Remedy, recordEnds) {
		t.Errorf("%v: %s", err, e.Remedy)
	}
}

// TestBackendFailedSweep: when it cannot be known what a run made, Wait says so and
// nothing runs in the workspace, nor around or in it, until it was swept. Others
// are not touched.
func TestBackendFailedSweep(t *testing.T) {
	c := configOf(t)
	b := openBackend(t, c)
	s, other := newSite(t, celltest.Residents()[0]), newSite(t, celltest.Residents()[0])
	s.dir("sub")
	in := *s
	in.workspace += "/sub"
	p := s.starts(b, "echo x > .envrc; echo ready; sleep 1000")
	safe := unsafe(t, c)
	p.Stop("cancelled", 0)
	if _, err := p.Wait(); palyra.AsError(err).Reason != palyra.ReasonUnsafePermissions &&
		palyra.AsError(err).Reason != palyra.ReasonSealDenied {
		t.Errorf("%v", err)
	}
	if left := records(c); len(left) != 1 {
		t.Errorf("records: %v", left)
	}
	closedTo(t, b, s, c, s.workspace)
	closedTo(t, b, &in, c, s.workspace)
	in.staged = true
	closedTo(t, b, &in, c, s.workspace)
	runJob(t, b, other.trueJob())
	safe()
	runJob(t, b, in.trueJob())
	if exists(s.workspace+"/.envrc") || len(records(c)) != 0 {
		t.Errorf("records: %v", records(c))
	}
	runJob(t, b, s.trueJob())
}

// TestBackendRecoverGoesOn: a workspace that cannot be swept closes itself and not
// the daemon; one that is gone, or is another directory, closes nothing.
func TestBackendRecoverGoesOn(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, c Config, s *site) (safe func()){
		"gone":     func(t *testing.T, _ Config, s *site) func() { mustRename(t, s.workspace); return nil },
		"another":  func(t *testing.T, _ Config, s *site) func() { mustRename(t, s.workspace); s.dir(""); return nil },
		"no place": func(t *testing.T, c Config, _ *site) func() { return unsafe(t, c) },
	} {
		t.Run(name, func(t *testing.T) {
			c := configOf(t)
			s := newSite(t, celltest.Residents()[0])
			d := startDaemon(t, c, s)
			_ = d.Process.Kill()
			_ = d.Wait()
			safe := do(t, c, s)
			b := openBackend(t, c)
			if err := b.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if safe == nil {
				if left := records(c); len(left) != 0 {
					t.Errorf("records: %v", left)
				}
				return
			}
			closedTo(t, b, s, c, s.workspace)
			runJob(t, b, newSite(t, celltest.Residents()[0]).trueJob())
			safe()
			runJob(t, b, s.trueJob())
			if left := records(c); len(left) != 0 || exists(s.workspace+"/.envrc") {
				t.Errorf("records: %v", left)
			}
		})
	}
}

// TestBackendRecoverTrims: what is swept after a daemon died makes room for itself in
// the quarantine, as after a run.
func TestBackendRecoverTrims(t *testing.T) {
	c := configOf(t)
	s := newSite(t, celltest.Residents()[0])
	d := startDaemon(t, c, s)
	_ = d.Process.Kill()
	_ = d.Wait()
	c.Kept = 1 << 20
	old := filepath.Join(c.Quarantine, "old")
	line, err := quarantine.Item{Item: "000001", Path: ".envrc", Mode: 1, Bytes: 1 << 20}.Line()
	if err = errors.Join(err, os.MkdirAll(filepath.Join(old, "000001"), 0o700),
		os.WriteFile(filepath.Join(old, quarantine.IndexName), line, 0o600)); err != nil {
		t.Fatal(err)
	}
	b := openBackend(t, c)
	if err := b.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, bytes := quarantine.Usage(c.Quarantine); n != 1 || bytes > c.Kept || exists(old) {
		t.Errorf("%d calls, %d bytes", n, bytes)
	}
}

func mustRename(t *testing.T, path string) {
	t.Helper()
	if err := os.Rename(path, path+"-away"); err != nil {
		t.Fatal(err)
	}
}

// TestBackendSharedRecord: a daemon that dies during two runs leaves records by
// which the second is swept like the first.
func TestBackendSharedRecord(t *testing.T) {
	c := configOf(t)
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	s.dir("sub")
	in := *s
	in.workspace += "/sub"
	first := in.starts(b, "echo x > .envrc; echo ready; exec sleep 1000")
	second := s.starts(b, "echo ready; exec sleep 1000")
	n := 0
	for _, name := range records(c) {
		state, _, text, err := readRecord(filepath.Join(c.Dir, name))
		// .envrc, sub/.envrc
		if err != nil || state != recordRuns || strings.Contains(string(text), "LmVudnJj") || strings.Contains(string(text), "c3ViLy5lbnZyYw==") {
			t.Errorf("%s: %s, %v", state, text, err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d records", n)
	}
	second.Stop("cancelled", 0)
	first.Stop("cancelled", 0)
	waitFor(t, second)
	waitFor(t, first)
	if exists(in.workspace + "/.envrc") {
		t.Error("it remains")
	}
}

// TestLostRecord: what the machine lost when it stopped closes nothing; what was
// broken since does.
func TestLostRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+recordEnds)
	for _, c := range []struct {
		text string
		at   time.Time
		want bool
	}{
		{"", time.Unix(1000, 0), true},
		{strings.Repeat("\x00", 4096), time.Unix(1000, 0), true},
		{"", time.Now(), false},
		{"runs 3", time.Unix(1000, 0), false},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chtimes(path, c.at, c.at)); err != nil {
			t.Fatal(err)
		}
		if got := lost(path); got != c.want {
			t.Errorf("%.10q of %v: %v", c.text, c.at, got)
		}
	}
}

// TestBackendCopiedMark: a process that only carries a mark on its command line is
// neither waited for nor killed, whoever's it is.
func TestBackendCopiedMark(t *testing.T) {
	b := openBackend(t, configOf(t))
	mark := template.MarkText(oldMark(t, b))
	cmd := exec.Command("/bin/sh", "-c", "read x", "inside", mark)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	eventually(t, "it has the mark", func() bool { m, ok := template.MarkOf("/proc", cmd.Process.Pid); return ok && b.fleet.Foreign(m) })
	if err := b.templates.End(t.Context()); err != nil {
		t.Error(err)
	}
	if !lives(cmd.Process.Pid) {
		t.Error("it was killed")
	}
}

// oldMark is a mark of this state that is not of this backend.
func oldMark(t *testing.T, b *Backend) uint64 {
	t.Helper()
	m := b.fleet.NewMark()
	defer b.fleet.Forget(m)
	return m ^ 1<<31
}
