package cells

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

// kernel makes and removes cgroup directories. Tests replace it: a real cgroup directory comes with files in it.
type kernel struct {
	mkdir func(string) error
	rmdir func(string) error
}

// cgroupfs is the real one.
var cgroupfs = kernel{
	mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
	rmdir: unix.Rmdir,
}

// Cgroups are the directories below which a group is made for every keeper, by purpose; empty where there is none.
// On a v2 host all are the same; on v1 each is of its own hierarchy, and Tree may be of an empty v2 beside them.
type Cgroups struct {
	kernel
	Version int    // 1 or 2, of memory and pids; 0: neither
	Memory  string // bounds memory
	Pids    string // bounds tasks
	CPU     string // counts time
	Tree    string // can kill a group at once (v2)
	inside  bool   // a cell is in its group itself
}

// Dirs lists the directories, each once.
func (c Cgroups) Dirs() []string {
	var out []string
	for _, d := range []string{c.Memory, c.Pids, c.CPU, c.Tree} {
		if d != "" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// Group is the directories of one keeper.
type Group struct {
	Cgroups
	name string
}

// group makes the group of a keeper; nil without cgroups.
func (c Cgroups) group(name string) (*Group, error) {
	g := &Group{c, name}
	for i, d := range c.Dirs() {
		if err := c.mkdir(filepath.Join(d, name)); err != nil {
			for _, made := range c.Dirs()[:i] {
				_ = c.rmdir(filepath.Join(made, name)) // it is empty, and Recover tries again
			}
			return nil, fmt.Errorf("cells: cgroup: %w", err)
		}
	}
	return g, nil
}

// file is a file of the group in the hierarchy below parent.
func (g *Group) file(parent, name string) string {
	if parent == "" {
		return ""
	}
	return filepath.Join(parent, g.name, name)
}

// Places returns where the launcher is to be born, in the cell's arguments.
func (g *Group) Places() []string {
	var out []string
	for _, d := range g.Dirs() {
		if g.Version == 2 || d == g.Tree {
			out = append(out, cell.IntoArg+filepath.Join(d, g.name))
		} else {
			out = append(out, cell.TasksArg+g.file(d, "tasks"))
		}
	}
	return out
}

// limit writes the limits of the whole group.
func (g *Group) limit(l palyra.Limits) error {
	memory, pids := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(l.Processes, 10)
	if g.Pids != "" {
		if err := set(g.file(g.Pids, "pids.max"), pids); err != nil {
			return err
		}
	}
	switch {
	case g.Memory == "":
		return nil
	case g.Version == 2:
		if err := set(g.file(g.Memory, "memory.max"), memory); err != nil {
			return err
		}
		all := "1" // one process out of memory ends all
		if g.inside {
			all = "0" // but not the cell, which notices it and ends the rest
		}
		// Swap would be further memory.
		return errors.Join(setIfThere(g.file(g.Memory, "memory.oom.group"), all), setIfThere(g.file(g.Memory, "memory.swap.max"), "0"))
	default:
		return g.limitMemory(memory)
	}
}

// limitMemory is for v1, where the limit with swap may never be below the one without: the second
// is lowered first, and raised last.
func (g *Group) limitMemory(value string) error {
	limit, swap := g.file(g.Memory, "memory.limit_in_bytes"), g.file(g.Memory, "memory.memsw.limit_in_bytes")
	if set(limit, value) == nil {
		return setIfThere(swap, value)
	}
	if err := setIfThere(swap, value); err != nil {
		return err
	}
	return set(limit, value)
}

// counters lists the files that the cell reads. It leaves out the peak of pids: that counts
// threads, and the launcher's among them.
func (g *Group) counters() cell.Counters {
	c := cell.Counters{PidsMax: g.file(g.Pids, "pids.events")}
	if g.Version == 2 {
		c.OOM, c.PeakBytes = g.file(g.Memory, "memory.events"), g.file(g.Memory, "memory.peak")
		c.CPUMicros = g.file(g.CPU, "cpu.stat")
	} else {
		c.OOM, c.PeakBytes = g.file(g.Memory, "memory.oom_control"), g.file(g.Memory, "memory.max_usage_in_bytes")
		c.CPUNanos = g.file(g.CPU, "cpuacct.usage")
	}
	for _, p := range []*string{&c.PidsMax, &c.OOM, &c.PeakBytes, &c.CPUMicros, &c.CPUNanos} {
		if _, err := os.Stat(*p); err != nil {
			*p = "" // older kernels have fewer files
		}
	}
	return c
}

// kill ends everything in the group at once, where the kernel can.
func (g *Group) kill() error {
	if g.Tree == "" {
		return errors.ErrUnsupported
	}
	return set(g.file(g.Tree, "cgroup.kill"), "1")
}

// members lists the processes in the group. v1 lists a process for any thread of it, so this one is
// listed while it starts another there.
func (g *Group) members() []int {
	var out []int
	for _, d := range g.Dirs() {
		b, _ := os.ReadFile(g.file(d, "cgroup.procs")) // a removed group has no members
		for _, f := range strings.Fields(string(b)) {
			// 0 stands for a process that cannot be seen from here
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 && pid != os.Getpid() && !slices.Contains(out, pid) {
				out = append(out, pid)
			}
		}
	}
	return out
}

// only reports whether nobody else is in the group; false without a group, and where cells are in
// theirs and it is not known who they are.
func (g *Group) only(pids []int) bool {
	if g == nil || g.inside && len(pids) == 0 || len(g.Dirs()) == 0 {
		return false
	}
	b, err := os.ReadFile(g.file(g.Dirs()[0], "cgroup.procs"))
	for _, f := range strings.Fields(string(b)) {
		pid, e := strconv.Atoi(f)
		if e != nil || !slices.Contains(pids, pid) {
			return false
		}
	}
	return err == nil
}

// strike kills the processes that were seen in the group; a reused pid is not hit. It returns their number.
func (g *Group) strike() int {
	handles := map[int]int{}
	for _, pid := range g.members() {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			handles[pid] = fd
		}
	}
	still := g.members()
	for pid, fd := range handles {
		if slices.Contains(still, pid) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error means that it has ended already
		}
		_ = unix.Close(fd)
	}
	return len(still)
}

// exceeded is the limit of the group that a cell in it can have died of together with its run: memory, when the
// kernel ends a process, or tasks, when the cell cannot make a thread that it needs. Empty: none.
func (g *Group) exceeded() string {
	if g == nil || !g.inside {
		return ""
	}
	c := g.counters()
	switch {
	case counted(c.OOM, "oom_kill"):
		return "memory"
	case counted(c.PidsMax, "max"):
		return "processes"
	}
	return ""
}

// counted reports whether a counter in a cgroup's file is above 0.
func counted(file, name string) bool {
	b, err := os.ReadFile(file)
	_, rest, found := strings.Cut("\n"+string(b), "\n"+name+" ")
	n, _, _ := strings.Cut(rest, "\n")
	times, e := strconv.ParseUint(strings.TrimSpace(n), 10, 64)
	return err == nil && e == nil && found && times > 0
}

// remove removes the directories. The kernel keeps one busy for a moment after its last process was reaped.
func (g *Group) remove(patience time.Duration) error {
	var errs []error
	end := time.After(patience)
	for _, d := range g.Dirs() {
		dir := filepath.Join(d, g.name)
		for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
			err := g.rmdir(dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			busy := errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINTR)
			if !busy || !Pause(wait, end) {
				errs = append(errs, fmt.Errorf("cells: remove cgroup %s: %w", dir, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// Pause waits before another try; false: the time is over.
func Pause(d time.Duration, end <-chan time.Time) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-end:
		return false
	}
}

// set writes a cgroup file, which must exist.
func set(file, value string) error {
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0) // not os.OpenFile: this is on the path of a launch
	if err != nil {
		return fmt.Errorf("cells: cgroup: open %s: %w", file, err)
	}
	_, err = unix.Write(fd, []byte(value))
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("cells: cgroup: write %s: %w", file, err)
	}
	return nil
}

// setIfThere is for files that only some kernels have and that no promise depends on.
func setIfThere(file, value string) error {
	if err := set(file, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// leaveWithin is how long directories of ended runs may keep ours busy.
const leaveWithin = 2 * time.Second

// leave removes our own directories, unless another daemon of this state uses them: the last one
// removes them, and otherwise Recover finds them.
func (c Cgroups) leave() {
	until := time.Now().Add(leaveWithin)
	for _, d := range c.Dirs() {
		for errors.Is(c.rmdir(d), unix.EBUSY) && time.Now().Before(until) {
			Pause(10*time.Millisecond, nil)
		}
	}
}
