package confine

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

var _ sandbox.Backend = (*Backend)(nil)

// TestOrdinaryUser runs every other test of the package as somebody who may do
// nothing special: no cgroups, no other uids.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: what only root can do: the suite itself runs as an ordinary user")
	}
	uid, gid := whom(t)
	dir, err := os.MkdirTemp(base, "user-")
	if err != nil {
		t.Fatal(err)
	}
	copied := func(from, name string) string {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	work := filepath.Join(dir, "work")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(work, 0o755), os.Chown(work, uid, gid)); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.timeout=5m"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command(copied("/proc/self/exe", "confine.test"), args...)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), cellVar+"="+copied(built, "palyra-cell"), baseVar+"="+work, "TMPDIR="+work, "HOME="+work)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
	if n := strings.Count(string(out), "--- PASS"); n < 30 {
		t.Errorf("only %d tests passed as uid %d", n, uid)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "UNPROVEN HERE") {
			t.Logf("as uid %d: %s", uid, strings.TrimSpace(line))
		}
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	for _, c := range []Config{{}, {StateID: "a/b"}, {StateID: "../x"}, {StateID: "x", Warm: -1}, {StateID: strings.Repeat("x", 65)}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v", c)
		}
	}
}

// TestWrongCell: a cell that is not the stamped one makes the tier unavailable,
// for Probe and for Start, and never an error of New.
func TestWrongCell(t *testing.T) {
	other := filepath.Join(t.TempDir(), "cell")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no digest":      func(c *Config) { c.Digest = "" },
		"another digest": func(c *Config) { c.Digest = strings.Repeat("0", 64) },
		"another file":   func(c *Config) { c.Cell = other },
		"no file":        func(c *Config) { c.Cell += "-missing" },
		"a directory":    func(c *Config) { c.Cell = filepath.Dir(c.Cell) },
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			c.Warm = 1
			change(&c)
			b := open(t, c)
			s := newStage(t)
			j := s.job("/bin/sh", "-c", "touch ran")
			_, probed := b.Probe(context.Background(), palyra.Limits{})
			_, started := b.Start(t.Context(), j)
			for _, err := range []error{probed, started} {
				if e := palyra.AsError(err); e.Reason != palyra.ReasonTierUnavailable || e.Code != palyra.Unavailable || e.Remedy == "" {
					t.Errorf("%+v", e)
				}
			}
			if name != "a directory" && palyra.AsError(probed).Remedy != cellRemedy {
				t.Error(palyra.AsError(probed).Remedy)
			}
			if _, err := j.Stdin.Stat(); !errors.Is(err, os.ErrClosed) {
				t.Error("the job's files are still open")
			}
			if err := b.Recover(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestImageIsTheCopy: what happens to the file after New does not matter.
func TestImageIsTheCopy(t *testing.T) {
	b, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	c := config(t)
	c.Cell = filepath.Join(t.TempDir(), "cell")
	if err := os.WriteFile(c.Cell, b, 0o755); err != nil {
		t.Fatal(err)
	}
	backend := open(t, c)
	if err := os.WriteFile(c.Cell, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	if code, out := s.script(backend, "echo still"); code != 0 || out != "still" {
		t.Errorf("%d %s", code, out)
	}
	if _, err := unix.Write(int(backend.image.Fd()), []byte("x")); !errors.Is(err, unix.EPERM) {
		t.Errorf("the image can be written: %v", err)
	}
}

func TestBadJobs(t *testing.T) {
	b := open(t, config(t))
	for name, change := range map[string]func(*sandbox.Job){
		"no stdin":          func(j *sandbox.Job) { _ = j.Stdin.Close(); j.Stdin = nil },
		"no stdout":         func(j *sandbox.Job) { j.Stdout = nil },
		"relative program":  func(j *sandbox.Job) { j.Path = "sh" },
		"no program":        func(j *sandbox.Job) { j.Path = "" },
		"no arguments":      func(j *sandbox.Job) { j.Argv = nil },
		"cwd outside":       func(j *sandbox.Job) { j.Cwd = "/usr" },
		"cwd beside":        func(j *sandbox.Job) { j.Cwd = j.Workspace + "-2" },
		"workspace is root": func(j *sandbox.Job) { j.Workspace, j.Cwd = "/", "/" },
		"dots":              func(j *sandbox.Job) { j.Workspace += "/../x"; j.Cwd = j.Workspace },
		"no private":        func(j *sandbox.Job) { j.Private = "" },
		"negative uid":      func(j *sandbox.Job) { j.UID = -1 },
		"uid of nobody":     func(j *sandbox.Job) { j.UID = 1<<32 - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			j := s.job("/bin/sh", "-c", "touch ran")
			change(&j)
			if _, err := b.Start(t.Context(), j); palyra.CodeOf(err) != palyra.Invalid {
				t.Errorf("%v", err)
			}
			if _, err := j.Stderr.Stat(); !errors.Is(err, os.ErrClosed) {
				t.Error("the job's files are still open")
			}
			if _, err := os.Stat(s.workspace + "/ran"); err == nil {
				t.Error("it ran")
			}
		})
	}
	if os.Geteuid() != 0 {
		s := newStage(t)
		j := s.job("/bin/true")
		j.UID = 0
		if _, err := b.Start(t.Context(), j); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("as root: %v", err)
		}
	}
}

// TestPromise: a run that could not keep what the plan says is refused, and
// nothing runs.
func TestPromise(t *testing.T) {
	c := config(t)
	c.Cgroup, c.Warm = CgroupOff, 1
	b := open(t, c)
	for name, change := range map[string]func(*palyra.Enforcement){
		"mode":      func(e *palyra.Enforcement) { e.Mode = "preflight" },
		"mechanism": func(e *palyra.Enforcement) { e.Mechanisms = append(e.Mechanisms, "cgroup_v1") },
		"memory":    func(e *palyra.Enforcement) { e.Limits["memory"] = "cgroup" },
		"unknown":   func(e *palyra.Enforcement) { e.Limits["disk"] = "quota" },
	} {
		s := newStage(t)
		e, err := b.Probe(t.Context(), palyra.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		j := s.job("/bin/sh", "-c", "touch ran")
		change(&e)
		j.Expect = e
		if _, err := b.Start(t.Context(), j); palyra.AsError(err).Reason != palyra.ReasonWeakEnforcement || palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(s.workspace + "/ran"); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
	s := newStage(t)
	j := s.job("/bin/true")
	j.Expect, _ = b.Probe(t.Context(), palyra.Limits{})
	if x := run(t, b, j); x.Code != 0 || weaker(x.Enforcement, j.Expect) != "" {
		t.Errorf("what was promised is not what was kept: %+v", x)
	}
}

func TestWeaker(t *testing.T) {
	base := palyra.Enforcement{Mode: "strict", Mechanisms: []string{"a", "b"}, Limits: map[string]string{"memory": "cgroup", "cpu": "rlimit+polled", "wall": "timer"}}
	for _, c := range []struct {
		name  string
		keeps bool
		have  func(*palyra.Enforcement)
	}{
		{"the same", true, func(*palyra.Enforcement) {}},
		{"more mechanisms", true, func(e *palyra.Enforcement) { e.Mechanisms = append(e.Mechanisms, "c") }},
		{"fewer mechanisms", false, func(e *palyra.Enforcement) { e.Mechanisms = e.Mechanisms[:1] }},
		{"polled memory", false, func(e *palyra.Enforcement) { e.Limits["memory"] = "polled" }},
		{"a missing limit", false, func(e *palyra.Enforcement) { delete(e.Limits, "memory") }},
		{"stronger cpu", true, func(e *palyra.Enforcement) { e.Limits["cpu"] = "cgroup" }},
		{"another timer", false, func(e *palyra.Enforcement) { e.Limits["wall"] = "cgroup" }},
		{"another mode", false, func(e *palyra.Enforcement) { e.Mode = "none" }},
	} {
		e := palyra.Enforcement{Mode: base.Mode, Mechanisms: slices.Clone(base.Mechanisms), Limits: maps.Clone(base.Limits)}
		c.have(&e)
		if why := weaker(e, base); (why == "") != c.keeps {
			t.Errorf("%s: %q", c.name, why)
		}
	}
	if why := weaker(base, palyra.Enforcement{}); why != "" {
		t.Errorf("nothing was promised: %s", why)
	}
}

// TestProbe: what is promised is what the kernel was seen to give, and the caller
// cannot change it for others.
func TestProbe(t *testing.T) {
	b := open(t, config(t))
	e, err := b.Probe(t.Context(), palyra.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(e.Mechanisms) || e.Mode != "strict" || b.Executor() != "sandbox_tier_b" || b.Tier() != palyra.TierB {
		t.Errorf("%+v", e)
	}
	want := "polled"
	if b.cg.memory != "" {
		want = "cgroup"
	}
	if e.Limits["memory"] != want || slices.Contains(e.Mechanisms, "cgroup_v1") != (b.cg.version == 1) {
		t.Errorf("%+v for %+v", e, b.cg)
	}
	e.Limits["memory"], e.Mechanisms[0] = "none", "none"
	if again, _ := b.Probe(t.Context(), palyra.Limits{}); again.Limits["memory"] != want || again.Mechanisms[0] == "none" {
		t.Error("Probe hands out its own memory")
	}
	old := enforcement(host{abi: 3}, cgroups{})
	if slices.Contains(old.Mechanisms, "landlock_signal_scope") || !slices.Contains(old.Mechanisms, "landlock_abi_3") {
		t.Errorf("an old kernel: %v", old.Mechanisms)
	}
}

func TestRlimits(t *testing.T) {
	find := func(resource int, c cgroups) (uint64, bool) {
		for _, r := range rlimits(palyra.Limits{CPUMS: 1500, MemoryBytes: 100, Processes: 5, OpenFiles: 7, FileBytes: 9}, 42, c, 11) {
			if r.Resource == resource {
				return r.Value, true
			}
		}
		return 0, false
	}
	for resource, want := range map[int]uint64{
		unix.RLIMIT_CPU: 3, unix.RLIMIT_DATA: 400 + dataSlack, unix.RLIMIT_NOFILE: 7, unix.RLIMIT_FSIZE: 9, unix.RLIMIT_CORE: 0, markLimit: 42,
		unix.RLIMIT_NPROC: 11 + 5 + spareTasks,
	} {
		if got, ok := find(resource, cgroups{}); !ok || got != want {
			t.Errorf("%d: %d, want %d", resource, got, want)
		}
	}
	for _, resource := range []int{unix.RLIMIT_NPROC, unix.RLIMIT_DATA} {
		if _, ok := find(resource, cgroups{memory: "/m", pids: "/p"}); ok {
			t.Errorf("a cgroup counts, and so does rlimit %d", resource)
		}
	}
	if got := lowered([]cell.Rlimit{{Resource: unix.RLIMIT_NOFILE, Value: 1 << 60}, {Resource: unix.RLIMIT_CORE, Value: 0}}); got[0].Value >= 1<<60 || got[1].Value != 0 {
		t.Errorf("more than the daemon has itself: %+v", got)
	}
	if l := withDefaults(palyra.Limits{MemoryBytes: 5, CPUMS: -1}); l.MemoryBytes != 5 || l.CPUMS != defaultCPUMS || l.Processes != defaultProcesses {
		t.Errorf("%+v", l)
	}
	if n := tasksOf("/proc", int64(os.Geteuid())); n < 2 {
		t.Errorf("this process alone has more than %d threads", n)
	}
	if n := tasksOf("/nowhere", 0); n != 0 {
		t.Errorf("%d tasks nowhere", n)
	}
}
