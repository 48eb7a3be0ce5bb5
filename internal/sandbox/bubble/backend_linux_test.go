package bubble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/exetest"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
)

// TestBackendAsOrdinaryUser runs the other tests of the backend as somebody who may
// do nothing special: no cgroups, no other uids.
func TestBackendAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	celltest.AsOrdinary(t, "^TestBackend", 40)
}

func TestBackendFirstProgram(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		e, err := b.Probe(t.Context(), palyra.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		s := newSite(t, who)
		j := s.job("/bin/sh", "-c", "echo hello; id -u; pwd; exit 3")
		j.Expect = e
		x := runJob(t, b, j)
		if x.Code != 3 || x.Signal != "" || x.Limit != "" || x.Stopped != "" || x.Left != 0 || x.Quarantined != nil {
			t.Errorf("exit %+v", x)
		}
		uid, _ := bwrap.Room{UID: who.UID, GID: who.GID}.Inside()
		if want := fmt.Sprintf("hello\n%d\n%s", uid, s.workspace); s.printed() != want {
			t.Errorf("printed %q, want %q", s.printed(), want)
		}
	})
}

// TestBackendPromises: what Probe and Exit say is the contract's list, and what the
// kernel was seen to give.
func TestBackendPromises(t *testing.T) {
	b := openBackend(t, configOf(t))
	e, err := b.Probe(t.Context(), palyra.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`bubblewrap capabilities_dropped cell clean_env ipc_namespace mount_namespace net_namespace no_new_privs pid_namespace
		private_home private_tmp read_only_system seccomp sealed_paths user_namespace uts_namespace`)
	want = append(want, fmt.Sprintf("landlock_abi_%d", b.fleet.Host.ABI))
	limits := map[string]string{"memory": "polled", "processes": "rlimit", "disk": "polled", "cpu": "rlimit+polled"}
	if v := b.fleet.Groups.Version; v != 0 {
		want = append(want, fmt.Sprintf("cgroup_v%d", v))
		limits["memory"], limits["processes"] = "cgroup", "cgroup"
	} else if os.Geteuid() == 0 {
		limits["processes"] = "polled"
	}
	slices.Sort(want)
	if !slices.Equal(e.Mechanisms, want) || e.Mode != "strict" || b.Executor() != executor || b.Tier() != palyra.TierC || !b.Room() {
		t.Errorf("%+v, want %v", e, want)
	}
	for name, how := range limits {
		if e.Limits[name] != palyra.Hold(how) {
			t.Errorf("%s is kept by %q, want %q", name, e.Limits[name], how)
		}
	}
	for _, who := range celltest.Residents() {
		s := newSite(t, who)
		j := s.job("/bin/true")
		j.Expect, j.Unix = e, true
		x := runJob(t, b, j)
		by := "owner_uid"
		if who.UID == 0 {
			by = "root_workspace"
		}
		if !slices.IsSorted(x.Enforcement.Mechanisms) || len(sandbox.Lacks(e, x.Enforcement)) > 0 ||
			!slices.Contains(x.Enforcement.Mechanisms, by) || !slices.Contains(x.Enforcement.Mechanisms, "unix_sockets") {
			t.Errorf("%s: %+v", who.Name, x.Enforcement)
		}
	}
	facts := b.Facts()
	for _, name := range strings.Fields("bwrap_path bwrap_version bwrap_digest cell_digest landlock_abi kernel") {
		if facts[name] == "" {
			t.Errorf("nothing is told about %s", name)
		}
	}
	facts["kernel"] = "changed"
	if b.Facts()["kernel"] == "changed" {
		t.Error("Facts hands out its own memory")
	}
}

// TestBackendWithoutCgroups: the user namespace's own count of processes is a
// promise for users, and none for root.
func TestBackendWithoutCgroups(t *testing.T) {
	c := configOf(t)
	c.Cgroup = cells.CgroupOff
	b := openBackend(t, c)
	for _, who := range celltest.Residents() {
		s := newSite(t, who)
		want := "rlimit"
		if who.UID == 0 {
			want = "polled"
		}
		if x := runJob(t, b, s.job("/bin/true")); x.Enforcement.Limits["processes"] != palyra.Hold(want) ||
			x.Enforcement.Limits["memory"] != "polled" {
			t.Errorf("%s: %+v", who.Name, x.Enforcement)
		}
	}
}

func TestBackendRefusesWeaker(t *testing.T) {
	c := configOf(t)
	c.Cgroup, c.Warm = cells.CgroupOff, 1
	b := openBackend(t, c)
	for name, change := range map[string]func(*palyra.Enforcement){
		"mechanism": func(e *palyra.Enforcement) { e.Mechanisms = append(e.Mechanisms, "cgroup_v1") },
		"memory":    func(e *palyra.Enforcement) { e.Limits["memory"] = "cgroup" },
		"unknown":   func(e *palyra.Enforcement) { e.Limits["disk"] = "quota" },
	} {
		s := newSite(t, celltest.Residents()[0])
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
}

func TestBackendNewRefusesNonsense(t *testing.T) {
	good := configOf(t)
	for name, change := range map[string]func(*Config){
		"no state":            func(c *Config) { c.StateID = "" },
		"a path for a state":  func(c *Config) { c.StateID = "../x" },
		"negative cells":      func(c *Config) { c.Warm = -1 },
		"negative bytes":      func(c *Config) { c.WarmBytes = -1 },
		"negative tmp":        func(c *Config) { c.Tmp = -1 },
		"no directory":        func(c *Config) { c.Dir = "" },
		"relative quarantine": func(c *Config) { c.Quarantine = "q" },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Error(name)
		}
	}
}

// TestBackendUnavailable: what is missing makes the tier unavailable, for Probe and
// for Start, with the reason and the remedy, and never an error of New.
func TestBackendUnavailable(t *testing.T) {
	script := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no digest":      func(c *Config) { c.Digest = "" },
		"another digest": func(c *Config) { c.Digest = strings.Repeat("0", 64) },
		"no cell":        func(c *Config) { c.Cell += "-missing" },
		"no bwrap":       func(c *Config) { c.Bwrap = "/nowhere/bwrap" },
		"another bwrap":  func(c *Config) { c.Bwrap = script },
		"not bwrap":      func(c *Config) { c.Bwrap = "/usr/bin/true" },
		"relative":       func(c *Config) { c.Bwrap = "bwrap" },
	} {
		t.Run(name, func(t *testing.T) {
			c := configOf(t)
			c.Warm = 1
			change(&c)
			b := openBackend(t, c)
			s := newSite(t, celltest.Residents()[0])
			j := s.job("/bin/sh", "-c", "touch ran")
			_, probed := b.Probe(context.Background(), palyra.Limits{})
			_, started := b.Start(t.Context(), j)
			for _, err := range []error{probed, started} {
				if e := palyra.AsError(err); e.Reason != palyra.ReasonTierUnavailable || e.Code != palyra.Unavailable || e.Remedy == "" {
					t.Errorf("%+v", e)
				}
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

func TestBackendBadJobs(t *testing.T) {
	b := openBackend(t, configOf(t))
	for name, change := range map[string]func(*sandbox.Job){
		"no stdin":          func(j *sandbox.Job) { _ = j.Stdin.Close(); j.Stdin = nil },
		"relative program":  func(j *sandbox.Job) { j.Path = "sh" },
		"no arguments":      func(j *sandbox.Job) { j.Argv = nil },
		"cwd outside":       func(j *sandbox.Job) { j.Cwd = "/usr" },
		"cwd beside":        func(j *sandbox.Job) { j.Cwd = j.Workspace + "-2" },
		"cwd climbs":        func(j *sandbox.Job) { j.Cwd = j.Workspace + "/../x" },
		"workspace is root": func(j *sandbox.Job) { j.Workspace, j.Cwd = "/", "/" },
		"dots":              func(j *sandbox.Job) { j.Workspace += "/../x"; j.Cwd = j.Workspace },
		"negative uid":      func(j *sandbox.Job) { j.UID = -1 },
		"uid of nobody":     func(j *sandbox.Job) { j.UID = 1<<32 - 1 },
		"doors to nowhere":  func(j *sandbox.Job) { j.Doors = doors(1) },
		"too many doors": func(j *sandbox.Job) {
			j.Doors, j.Open = doors(cell.MaxDoors+1), func([]*os.File) error { return nil }
		},
		"a mount of nothing": func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/nowhere", Target: "/mnt/x"}} },
		"a file in the workspace": func(j *sandbox.Job) {
			j.Files = []palyra.RoomFile{{Target: j.Workspace + "/x", Text: "x"}}
		},
		"a seal that is none": func(j *sandbox.Job) { j.Seals = []string{"../x"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, celltest.Residents()[0])
			j := s.job("/bin/sh", "-c", "touch ran")
			change(&j)
			if _, err := b.Start(t.Context(), j); err == nil {
				t.Error("started")
			} else if e := palyra.AsError(err); e.Code == palyra.Internal {
				t.Errorf("%v (%v)", err, e.Cause)
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
		j := newSite(t, celltest.Residents()[0]).job("/bin/true")
		j.UID = 0
		if _, err := b.Start(t.Context(), j); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("as root: %v", err)
		}
	}
}

// TestBackendProgramsThatCannotRun: nothing ran, and the reason is told.
func TestBackendProgramsThatCannotRun(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	s.file("text", "not a program")
	for path, reason := range map[string]palyra.Reason{
		"/nowhere":            palyra.ReasonNotExecutable,
		s.workspace + "/text": palyra.ReasonNotExecutable,
		s.workspace + "/gone": palyra.ReasonNotExecutable,
	} {
		if _, err := b.Start(t.Context(), s.job(path)); palyra.AsError(err).Reason != reason || palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
	j := s.job("/bin/true")
	j.Cwd += "/missing"
	if _, err := b.Start(t.Context(), j); palyra.AsError(err).Reason != palyra.ReasonSpawnFailed {
		t.Errorf("no such directory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Start(ctx, s.job("/bin/sh", "-c", "touch ran")); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(s.workspace + "/ran"); err == nil {
		t.Error("it ran")
	}
}

// TestBackendBwrapReplaced: an update is looked at anew, and one that is not to be
// trusted ends the tier's use.
func TestBackendBwrapReplaced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: a bubblewrap of one's own needs root; the suite runs as an ordinary user")
	}
	dir, err := os.MkdirTemp("/usr/local/libexec", "palyra-test-")
	if err != nil {
		if dir, err = os.MkdirTemp("/usr/local/lib", "palyra-test-"); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "bwrap")
	put := func(mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(path), exetest.Copy(path, bwrap.DefaultPath), os.Chmod(path, mode), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	put(0o755)
	c := configOf(t)
	c.Bwrap = path
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	runJob(t, b, s.job("/bin/true"))
	put(0o755)
	runJob(t, b, s.job("/bin/true"))
	put(os.ModeSetuid | 0o755)
	if _, err := b.Start(t.Context(), s.job("/bin/true")); palyra.AsError(err).Reason != palyra.ReasonTierUnavailable {
		t.Errorf("a set-user-id bubblewrap: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Start(t.Context(), s.job("/bin/true")); palyra.AsError(err).Reason != palyra.ReasonTierUnavailable {
		t.Errorf("no bubblewrap: %v", err)
	}
	put(0o755)
	runJob(t, b, s.job("/bin/true"))
}

// TestBackendHiddenChanges: what is hidden in /opt comes and goes, and rooms are built
// all the same; a room that waits is not used when there is more to hide.
func TestBackendHiddenChanges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root can put anything into /opt")
	}
	dir, err := os.MkdirTemp("/opt", "palyra-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	secret := filepath.Join(dir, "secret")
	put := func() {
		t.Helper()
		if err := errors.Join(os.WriteFile(secret, []byte("x"), 0o600), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	put()
	c := configOf(t)
	c.Places = nil
	b := openBackend(t, c)
	s := newSite(t, celltest.Residents()[0])
	look := "test -d " + dir + " && ! cat " + secret
	if code, out := s.script(b, look); code != 0 {
		t.Fatalf("hidden: %d %s", code, out)
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if code, out := s.script(b, look); code != 0 {
		t.Errorf("gone: %d %s", code, out)
	}
	b.bwrap.Places.Again(nil)
	if code, out := s.script(b, look); code != 0 { // and another one waits from now on
		t.Errorf("gone for good: %d %s", code, out)
	}
	put()
	b.bwrap.Places.Again(nil)
	if code, out := s.script(b, look); code != 0 {
		t.Errorf("back again: %d %s", code, out)
	}
}
