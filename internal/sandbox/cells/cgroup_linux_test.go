package cells

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
)

const hybridCgroup = `9:name=systemd:/
8:pids:/
4:memory:/process_api/7df3
2:cpuacct,cpu:/
0::/
`

const hybridMounts = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpu\040acct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
nonsense
`

func TestHierarchies(t *testing.T) {
	got := hierarchies(hybridCgroup, hybridMounts)
	for key, want := range map[string]hierarchy{
		"memory":  {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/process_api/7df3"},
		"pids":    {"/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids"},
		"cpuacct": {"/sys/fs/cgroup/cpu acct", "/sys/fs/cgroup/cpu acct"},
		"":        {"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"},
	} {
		if got[key] != want {
			t.Errorf("%q: %+v, want %+v", key, got[key], want)
		}
	}
	if _, ok := got["freezer"]; ok {
		t.Error("a hierarchy that is not mounted")
	}
	if h := hierarchies("", ""); len(h) != 0 {
		t.Errorf("%v out of nothing", h)
	}
	if got := below("/mnt", "/docker/abc", "/docker/abc/x"); got != "/mnt/x" {
		t.Error(got)
	}
	if got := below("/mnt", "/docker/abc", "/user.slice"); got != "/mnt" {
		t.Error(got)
	}
}

// fake stands in for the kernel: a directory that is made has files, and is
// removed with them.
func fake(files ...string) kernel {
	return kernel{
		mkdir: func(dir string) error {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			for _, f := range files {
				if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
		rmdir: func(dir string) error {
			if _, err := os.Stat(dir); err != nil {
				return unix.ENOENT
			}
			return os.RemoveAll(dir)
		},
	}
}

var x = where{daemon: "palyra-x-daemon", runs: "palyra-x"}

var v2Files = words(`cgroup.procs cgroup.kill cgroup.subtree_control memory.max memory.swap.max memory.oom.group memory.events memory.peak pids.max pids.events cpu.stat`)

// delegated is a v2 directory that has controllers to hand on.
func delegated(t *testing.T, k kernel, controllers string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "scope")
	if err := k.mkdir(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/cgroup.controllers", []byte(controllers), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestVersion2(t *testing.T) {
	k := fake(v2Files...)
	own := delegated(t, k, "cpu memory pids\n")
	c, no := k.discover("auto", x, map[string]hierarchy{"": {own, own}}, 4711)
	if no != nil || c.Version != 2 || c.Memory != own+"/palyra-x" || len(c.Dirs()) != 1 {
		t.Fatalf("%+v %v", c, no)
	}
	if got := content(t, own+"/cgroup.subtree_control"); got != "+memory +pids" {
		t.Errorf("handed on %q", got)
	}
	g, err := c.group("1")
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Places(); len(got) != 1 || got[0] != "into="+c.Memory+"/1" {
		t.Errorf("born in %q", got)
	}
	procs := os.WriteFile(filepath.Join(c.Memory, "1", "cgroup.procs"), []byte("12"), 0o644) // as the kernel would say it
	if err := errors.Join(procs, g.limit(palyra.Limits{MemoryBytes: 100, Processes: 7}), g.kill()); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cgroup.procs": "12", "memory.max": "100", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "7", "cgroup.kill": "1",
	} {
		if got := content(t, filepath.Join(c.Memory, "1", file)); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	counters := g.counters()
	if filepath.Base(counters.OOM) != "memory.events" || filepath.Base(counters.CPUMicros) != "cpu.stat" || counters.CPUNanos != "" {
		t.Errorf("%+v", counters)
	}
	if m := g.members(); len(m) != 1 || m[0] != 12 {
		t.Errorf("members %v", m)
	}
	if err := g.remove(0); err != nil {
		t.Error(err)
	}
}

// TestVersion2Leaf: controllers cannot be handed on while the daemon is in the
// directory itself, so it moves; with somebody else there it moves back.
func TestVersion2Leaf(t *testing.T) {
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprint("alone ", alone), func(t *testing.T) {
			k := fake(v2Files...)
			own := delegated(t, k, "memory pids")
			control := own + "/cgroup.subtree_control"
			if err := os.Remove(control); err != nil { // busy
				t.Fatal(err)
			}
			plain := k.mkdir
			k.mkdir = func(dir string) error {
				if strings.HasSuffix(dir, "-daemon") && alone {
					_ = os.WriteFile(control, nil, 0o644) // nobody is left in it
				}
				return plain(dir)
			}
			c := k.unified(own, x, 4711)
			if alone {
				if c.Version != 2 || content(t, own+"/palyra-x-daemon/cgroup.procs") != "4711" {
					t.Errorf("%+v", c)
				}
				return
			}
			if c.Version != 0 || content(t, own+"/cgroup.procs") != "4711" {
				t.Errorf("%+v", c)
			}
			if _, err := os.Stat(own + "/palyra-x-daemon"); !errors.Is(err, fs.ErrNotExist) {
				t.Error("the leaf is left behind")
			}
		})
	}
}

// TestSecondTier: a tier that finds the daemon moved to its leaf by another works
// beside that, not below it.
func TestSecondTier(t *testing.T) {
	k := fake(v2Files...)
	own := delegated(t, k, "memory pids")
	leaf := own + "/palyra-x-daemon"
	if err := k.mkdir(leaf); err != nil {
		t.Fatal(err)
	}
	c, no := k.discover("auto", where{daemon: "palyra-x-daemon", runs: "palyra-x-c", inside: true}, map[string]hierarchy{"": {own, leaf}},
		4711)
	if no != nil || c.Version != 2 || c.Memory != own+"/palyra-x-c" {
		t.Fatalf("%+v %v", c, no)
	}
}

// TestInside: a cell that lives in its own group on v2 is not killed with the run,
// and gets its counters as descriptors, which cannot be written.
func TestInside(t *testing.T) {
	kern := fake(v2Files...)
	own := delegated(t, kern, "memory pids")
	c, no := kern.discover("auto", where{runs: "palyra-x", inside: true}, map[string]hierarchy{"": {own, own}}, 1)
	if no != nil {
		t.Fatal(no)
	}
	g, err := c.group("1")
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{Group: g, counters: g.counters()}
	if err := g.limit(palyra.Limits{MemoryBytes: 100, Processes: 7}); err != nil || content(t, c.Memory+"/1/memory.oom.group") != "0" {
		t.Errorf("%v", err)
	}
	h, err := k.Handles()
	if err != nil {
		t.Fatal(err)
	}
	if h.Counters.OOM != cell.ExtraPath(0) || h.Counters.CPUNanos != "" || len(h.Files) != len(h.Extra) || writable(t, h) {
		t.Errorf("%+v", h)
	}
	cell.CloseAll(k.counts)
	k.Body = numbered(4711)
	ways, err := k.Ways(0)
	in := k.Enclose(func() bool { return true })
	if err != nil || len(ways) > 0 || in != nil || content(t, c.Memory+"/1/cgroup.procs") != "4711" {
		t.Errorf("it is not put into its group: %v %v", ways, err)
	}
	if err := os.WriteFile(own+"/cgroup.procs", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := k.Enclose(func() bool { return false }); !errors.Is(err, ErrStale) || content(t, own+"/cgroup.procs") != "4711" {
		t.Errorf("one that is gone: %v", err)
	}
	if none, err := (&Keeper{}).Handles(); err != nil || len(none.Files) != 0 {
		t.Errorf("without cgroups: %+v %v", none, err)
	}
}

// writable: one of the descriptors can do more than be read from.
func writable(t *testing.T, h Handles) bool {
	t.Helper()
	return slices.ContainsFunc(h.Files, func(f *os.File) bool {
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		return err != nil || flags&(unix.O_ACCMODE|unix.O_PATH) != unix.O_RDONLY
	})
}

// TestInsideVersion1: a room gets what it enters each hierarchy by, once, and a
// hierarchy that cannot be entered is not promised; the cell itself gets nothing by
// which to enter or to leave; and there is no v2 group beside them.
func TestInsideVersion1(t *testing.T) {
	kern := fake("tasks", "cgroup.procs", "memory.limit_in_bytes", "pids.max", "pids.events", "cpuacct.usage", "cgroup.kill")
	root := t.TempDir()
	all := map[string]hierarchy{}
	for _, c := range []string{"memory", "pids", "cpuacct", "unified"} {
		if err := os.Mkdir(filepath.Join(root, c), 0o755); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(c, "unified")] = hierarchy{mount: filepath.Join(root, c), own: filepath.Join(root, c)}
	}
	c := kern.separate(all, where{runs: "palyra-x", inside: true})
	if c.Version != 1 || c.Tree != "" || len(c.Dirs()) != 3 {
		t.Fatalf("%+v", c)
	}
	g, err := c.group("1")
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{Group: g, counters: g.counters()}
	h, err := k.Handles()
	if err != nil || len(h.Files) != 2 || writable(t, h) || slices.ContainsFunc(h.Extra,
		func(e string) bool { return e != cell.ExtraCounter }) {
		t.Errorf("%+v %v", h, err)
	}
	cell.CloseAll(k.counts)
	entered := func(who string) (n int) {
		for _, d := range c.Dirs() {
			if content(t, d+"/1/tasks") == who {
				n++
			}
		}
		return n
	}
	if err := k.Enclose(func() bool { return true }); err != nil || entered("0") != 0 {
		t.Fatalf("moved from here: %v", err)
	}
	ways, err := k.Ways(int64(os.Geteuid()))
	if err != nil || len(ways) != 3 {
		t.Fatal(ways, err)
	}
	for _, fd := range ways {
		_, _ = unix.Write(fd, []byte("0"))
	}
	CloseWays(ways)
	if entered("0") != 3 {
		t.Errorf("%d entered", entered("0"))
	}
	if err := os.Remove(root + "/pids/palyra-x/1/tasks"); err != nil {
		t.Fatal(err)
	}
	if ways, err := k.Ways(int64(os.Geteuid())); err == nil || len(ways) > 0 {
		t.Error("in a group that cannot be entered")
	}
	if c := fake("cgroup.procs", "memory.limit_in_bytes", "pids.max").separate(all, where{runs: "palyra-y", inside: true}); c.Version != 0 {
		t.Errorf("cgroups that cannot be entered: %+v", c)
	}
}

// numbered is the body of a process of that number.
type numbered int

func (n numbered) Pid() int  { return int(n) }
func (numbered) Kill()       {}
func (numbered) Wait() error { return nil }

func TestVersion1(t *testing.T) {
	k := fake("cgroup.procs", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control", "memory.max_usage_in_bytes",
		"pids.max", "pids.events", "cpuacct.usage")
	root := t.TempDir()
	all := map[string]hierarchy{}
	for _, c := range []string{"memory", "pids", "cpuacct"} {
		if err := os.Mkdir(filepath.Join(root, c), 0o755); err != nil {
			t.Fatal(err)
		}
		all[c] = hierarchy{mount: filepath.Join(root, c), own: filepath.Join(root, c, "not/there")} // so only the mount itself can be used
	}
	c, no := k.discover("auto", x, all, 1)
	if no != nil || c.Version != 1 || c.Memory != root+"/memory/palyra-x" || c.Tree != "" || len(c.Dirs()) != 3 {
		t.Fatalf("%+v %v", c, no)
	}
	g, err := c.group("1")
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Places(); len(got) != 3 || got[0] != "tasks="+root+"/memory/palyra-x/1/tasks" {
		t.Errorf("born in %q", got)
	}
	if err := g.limit(palyra.Limits{MemoryBytes: 100, Processes: 7}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, root+"/pids/palyra-x/1/pids.max"); got != "7" {
		t.Errorf("tasks: %q", got)
	}
	if got := content(t, root+"/memory/palyra-x/1/memory.memsw.limit_in_bytes"); got != "100" {
		t.Errorf("swap: %q", got)
	}
	if err := g.kill(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("kill without a v2 tree: %v", err)
	}
	if got := g.counters(); filepath.Base(got.CPUNanos) != "cpuacct.usage" || got.CPUMicros != "" {
		t.Errorf("%+v", got)
	}
}

// TestPartlyUsable: a hierarchy whose limits cannot be written is not promised.
func TestPartlyUsable(t *testing.T) {
	k := fake("cgroup.procs", "pids.max") // memory has no limit to write
	root := t.TempDir()
	c, _ := k.discover("", x, map[string]hierarchy{"memory": {root, root}}, 1)
	if c.Version != 0 || c.Memory != "" {
		t.Errorf("%+v", c)
	}
}

func TestConfiguredDirectory(t *testing.T) {
	k := fake(v2Files...)
	if c, no := k.discover(delegated(t, k, "memory pids"), x, nil, 1); no != nil || c.Version != 2 {
		t.Errorf("%+v %v", c, no)
	}
	for _, dir := range []string{delegated(t, k, "cpu"), delegated(t, k, "memory"), "/nowhere"} {
		if _, no := k.discover(dir, x, nil, 1); no == nil || no.Reason != palyra.ReasonTierUnavailable || no.Remedy == "" {
			t.Errorf("%s: %v", dir, no)
		}
	}
	if c, no := k.discover("off", x, map[string]hierarchy{"": {"/x", "/x"}}, 1); no != nil || len(c.Dirs()) != 0 {
		t.Errorf("%+v %v", c, no)
	}
}

// TestGroupIsAllOrNothing: a group that cannot be made everywhere is made nowhere.
func TestGroupIsAllOrNothing(t *testing.T) {
	root := t.TempDir()
	c := Cgroups{kernel: cgroupfs, Memory: root, Pids: root + "/missing"}
	if _, err := c.group("1"); err == nil {
		t.Fatal("made")
	}
	if e, _ := os.ReadDir(root); len(e) != 0 {
		t.Errorf("left %v", e)
	}
}
