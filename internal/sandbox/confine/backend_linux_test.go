package confine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/exetest"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/refusal"
)

var _ sandbox.Backend = (*Driver)(nil)

// TestOrdinaryUser runs every other test of the package as somebody who may do
// nothing special: no cgroups, no other uids.
func TestOrdinaryUser(t *testing.T) { celltest.AsOrdinary(t, ".", 30) }

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
			if name != "a directory" && palyra.AsError(probed).Remedy != refusal.CellRemedy {
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
	c := config(t)
	built := c.Cell
	c.Cell = filepath.Join(t.TempDir(), "cell")
	if err := exetest.Copy(c.Cell, built); err != nil {
		t.Fatal(err)
	}
	backend := open(t, c)
	if err := exetest.Write(c.Cell, []byte("#!/bin/sh\nexit 1\n")); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	if code, out := s.script(backend, "echo still"); code != 0 || out != "still" {
		t.Errorf("%d %s", code, out)
	}
	if _, err := unix.Write(int(backend.fleet.Image.Fd()), []byte("x")); !errors.Is(err, unix.EPERM) {
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
		"cwd climbs":        func(j *sandbox.Job) { j.Cwd = j.Workspace + "/../x" },
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
	if x := celltest.Run(t, b, j); x.Code != 0 || len(sandbox.Lacks(j.Expect, x.Enforcement)) > 0 {
		t.Errorf("what was promised is not what was kept: %+v", x)
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
	want := palyra.HoldPolled
	if b.fleet.Groups.Memory != "" {
		want = palyra.HoldCgroup
	}
	if e.Limits["memory"] != want || slices.Contains(e.Mechanisms, "cgroup_v1") != (b.fleet.Groups.Version == 1) {
		t.Errorf("%+v for %+v", e, b.fleet.Groups)
	}
	e.Limits["memory"], e.Mechanisms[0] = "none", "none"
	if again, _ := b.Probe(t.Context(), palyra.Limits{}); again.Limits["memory"] != want || again.Mechanisms[0] == "none" {
		t.Error("Probe hands out its own memory")
	}
	old := enforcement(&cells.Fleet{Host: cells.Host{ABI: 3}}, cells.Cgroups{})
	if slices.Contains(old.Mechanisms, "landlock_signal_scope") || !slices.Contains(old.Mechanisms, "landlock_abi_3") {
		t.Errorf("an old kernel: %v", old.Mechanisms)
	}
}
