package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
)

// kernel makes and removes cgroup directories. Tests stand in for it: a cgroup
// directory comes with files in it.
type kernel struct {
	mkdir func(string) error
	rmdir func(string) error
}

// cgroupfs is the real one.
var cgroupfs = kernel{
	mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
	rmdir: unix.Rmdir,
}

// cgroups are the directories below which a group is made for every keeper, by
// what they are for; empty where there is none. On a v2 host all are the same;
// on v1 each is of its own hierarchy, and tree may be of an empty v2 beside them.
type cgroups struct {
	kernel
	version int    // 1 or 2, of memory and pids; 0: neither
	memory  string // bounds memory
	pids    string // bounds tasks
	cpu     string // counts time
	tree    string // can kill a group at once (v2)
}

func (c cgroups) dirs() []string {
	var out []string
	for _, d := range []string{c.memory, c.pids, c.cpu, c.tree} {
		if d != "" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// group is the directories of one keeper.
type group struct {
	cgroups
	name string
}

// group makes one, or nothing.
func (c cgroups) group(name string) (*group, error) {
	g := &group{c, name}
	for i, d := range c.dirs() {
		if err := c.mkdir(filepath.Join(d, name)); err != nil {
			for _, made := range c.dirs()[:i] {
				_ = c.rmdir(filepath.Join(made, name)) // empty, and Recover looks again
			}
			return nil, fmt.Errorf("confine: cgroup: %w", err)
		}
	}
	return g, nil
}

// file is a file of the group in the hierarchy below parent.
func (g *group) file(parent, name string) string {
	if parent == "" {
		return ""
	}
	return filepath.Join(parent, g.name, name)
}

// places is where the launcher is to be born, in the cell's language.
func (g *group) places() []string {
	var out []string
	for _, d := range g.dirs() {
		if g.version == 2 || d == g.tree {
			out = append(out, cell.IntoArg+filepath.Join(d, g.name))
		} else {
			out = append(out, cell.TasksArg+g.file(d, "tasks"))
		}
	}
	return out
}

// limit writes what bounds the whole group.
func (g *group) limit(l palyra.Limits) error {
	memory, pids := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(l.Processes, 10)
	if g.pids != "" {
		if err := set(g.file(g.pids, "pids.max"), pids); err != nil {
			return err
		}
	}
	switch {
	case g.memory == "":
		return nil
	case g.version == 2:
		if err := set(g.file(g.memory, "memory.max"), memory); err != nil {
			return err
		}
		// One process out of memory ends all. Swap would be memory by another name.
		return errors.Join(setIfThere(g.file(g.memory, "memory.oom.group"), "1"), setIfThere(g.file(g.memory, "memory.swap.max"), "0"))
	default:
		return g.limitMemory(memory)
	}
}

// limitMemory is for v1, where the limit that includes swap may never be below
// the one that does not: down the one goes first, up the other.
func (g *group) limitMemory(value string) error {
	limit, swap := g.file(g.memory, "memory.limit_in_bytes"), g.file(g.memory, "memory.memsw.limit_in_bytes")
	if set(limit, value) == nil {
		return setIfThere(swap, value)
	}
	if err := setIfThere(swap, value); err != nil {
		return err
	}
	return set(limit, value)
}

// counters tells the cell what to read. The peak of pids is left out: it counts
// threads, and the launcher's were in it.
func (g *group) counters() cell.Counters {
	c := cell.Counters{PidsMax: g.file(g.pids, "pids.events")}
	if g.version == 2 {
		c.OOM, c.PeakBytes = g.file(g.memory, "memory.events"), g.file(g.memory, "memory.peak")
		c.CPUMicros = g.file(g.cpu, "cpu.stat")
	} else {
		c.OOM, c.PeakBytes = g.file(g.memory, "memory.oom_control"), g.file(g.memory, "memory.max_usage_in_bytes")
		c.CPUNanos = g.file(g.cpu, "cpuacct.usage")
	}
	for _, p := range []*string{&c.PidsMax, &c.OOM, &c.PeakBytes, &c.CPUMicros, &c.CPUNanos} {
		if _, err := os.Stat(*p); err != nil {
			*p = "" // an older kernel has fewer
		}
	}
	return c
}

// kill ends everything in the group at once, where the kernel can.
func (g *group) kill() error {
	if g.tree == "" {
		return errors.ErrUnsupported
	}
	return set(g.file(g.tree, "cgroup.kill"), "1")
}

// members lists the processes in the group.
func (g *group) members() []int {
	var out []int
	for _, d := range g.dirs() {
		b, _ := os.ReadFile(g.file(d, "cgroup.procs")) // gone: nobody is in it
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 && !slices.Contains(out, pid) { // 0 is one that cannot be seen from here
				out = append(out, pid)
			}
		}
	}
	return out
}

// remove takes the directories away. The kernel keeps one busy for a moment
// after its last process was reaped.
func (g *group) remove(patience time.Duration) error {
	var errs []error
	end := time.After(patience)
	for _, d := range g.dirs() {
		dir := filepath.Join(d, g.name)
		for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
			err := g.rmdir(dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			busy := errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINTR)
			if !busy || !pause(wait, end) {
				errs = append(errs, fmt.Errorf("confine: remove cgroup %s: %w", dir, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// pause waits before another try; false: the end came first.
func pause(d time.Duration, end <-chan time.Time) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-end:
		return false
	}
}

// set writes a cgroup file, which must be there.
func set(file, value string) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0) // not os.OpenFile: this is on the path of a launch
	if err != nil {
		return fmt.Errorf("confine: cgroup: open %s: %w", file, err)
	}
	_, err = unix.Write(fd, []byte(value))
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("confine: cgroup: write %s: %w", file, err)
	}
	return nil
}

// setIfThere is for files that only some kernels have and that no promise rests
// on.
func setIfThere(file, value string) error {
	if err := set(file, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
