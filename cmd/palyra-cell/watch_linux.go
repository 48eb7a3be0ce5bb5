package main

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The limits that a watched tree can be ended for.
const (
	limitMemory    = "memory"
	limitProcesses = "processes"
	limitCPU       = "cpu"
	limitFileSize  = "file_size"
	limitDisk      = "disk"
)

const (
	everyDefault = 50 * time.Millisecond
	clockTick    = 10 * time.Millisecond // of /proc/PID/stat, on every Linux that Go knows
)

// watch reads a tree's cost every few milliseconds, and remembers the most it saw. Where a cgroup counts, its
// counters are believed; a counter that cannot be read is replaced by a walk over the tree.
type watch struct {
	limits cell.Watch
	tree   *tree
	page   int64
	extra  handed         // counters that came with a room
	kept   map[string]int // counters that are open, by their paths
	places []int          // the room's file systems in memory
	disk   disk
	on     bool // of a room: its limits are known

	memory, tasks int64           // most at once
	mark          int64           // resident bytes when proportions were read last
	last          map[int]process // of the walk before
	spent         time.Duration   // time seen being spent, by walks alone
	cpu           time.Duration   // time of the tree, by the best account
}

// newWatch watches the descendants of a process.
func newWatch(root int) (*watch, error) {
	t, err := newTree(root)
	if err != nil {
		return nil, err
	}
	return &watch{tree: t, page: int64(os.Getpagesize()), disk: disk{over: make(chan struct{})}}, nil
}

// close ends the watch of a tree that is gone.
func (w *watch) close() {
	close(w.disk.over)
	w.extra.close()
	for _, fd := range append(w.places, w.tree.proc) {
		_ = unix.Close(fd)
	}
}

// waited is the time of processes that the root has waited for.
func (w *watch) waited() time.Duration {
	p, _ := w.tree.read(w.tree.root)
	return time.Duration(p.waited) * clockTick
}

func (w *watch) every() time.Duration {
	if w.limits.EveryMS == 0 {
		return everyDefault
	}
	return time.Duration(w.limits.EveryMS) * time.Millisecond
}

// look returns the limit that the tree is over, or "". reaped is the CPU time of processes that have ended.
func (w *watch) look(reaped time.Duration) (string, error) {
	if limit := w.events(); limit != "" {
		if w.limits.Counters.PeakPids == "" {
			_, _ = w.see(reaped, false) // the number of processes can only be seen now
		}
		return limit, nil
	}
	counted, known := w.counted()
	if known {
		w.cpu = counted
	}
	if !known || w.blind() {
		limit, err := w.see(reaped, !known)
		if limit != "" || err != nil {
			return limit, err
		}
	}
	if w.limits.CPUMS > 0 && w.cpu > time.Duration(w.limits.CPUMS)*time.Millisecond {
		return limitCPU, nil
	}
	return w.written()
}

// blind reports whether some limit has no counter.
func (w *watch) blind() bool {
	c := w.limits.Counters
	return w.limits.Memory > 0 || w.limits.Processes > 0 || c.PeakBytes == "" || c.PeakPids == ""
}

// see walks the tree.
func (w *watch) see(reaped time.Duration, cpu bool) (string, error) {
	members, err := w.tree.walk()
	if err != nil {
		return "", err
	}
	var tasks, resident, ticks int64
	for _, p := range members {
		tasks += p.tasks
		resident += p.pages * w.page
		ticks += p.own + p.waited
	}
	w.tasks = max(w.tasks, tasks)
	if cpu {
		w.cpu = max(w.cpu, reaped+time.Duration(ticks)*clockTick, w.accumulate(members))
	}
	switch {
	case w.limits.Processes > 0 && tasks > w.limits.Processes, w.full(tasks):
		return limitProcesses, nil
	case w.weigh(members, resident):
		return limitMemory, nil
	}
	return "", nil
}

// full reports whether the kernel refuses another task: a tree that waits for one would never be seen over its
// limit. The cell's own threads count there too, and how many Go's runtime takes is not known before.
func (w *watch) full(tasks int64) bool {
	if w.limits.Ceiling <= 0 {
		return false
	}
	self, ok := w.tree.read(w.tree.root)
	return !ok || tasks+self.tasks >= w.limits.Ceiling
}

// accumulate adds up what each process spent since the walk before. Sums over parents and children
// lose a process that is never waited for; this one does not.
func (w *watch) accumulate(members []process) time.Duration {
	now := make(map[int]process, len(members))
	for _, p := range members {
		now[p.pid] = p
		spent := p.own
		if before, ok := w.last[p.pid]; ok && before.start == p.start {
			spent -= before.own
		}
		w.spent += time.Duration(spent) * clockTick
	}
	w.last = now
	return w.spent
}

// weigh reads the tree's proportional memory (PSS), and reports whether it is over the limit. It cannot be more
// than the resident memory, which is cheap to read: proportions, which cost a walk over page tables, are read only
// near the limit or at a new maximum. (The resident count lags a little; hence near.)
func (w *watch) weigh(members []process, resident int64) bool {
	others := w.tables(members) + w.inPlaces()
	resident += others
	near := w.limits.Memory > 0 && resident > w.limits.Memory-w.limits.Memory/16
	if !near && resident <= w.mark+w.mark/8 {
		return false
	}
	w.mark = max(w.mark, resident)
	sum := others
	for _, p := range members {
		sum += w.proportion(p)
	}
	w.memory = max(w.memory, sum)
	return w.limits.Memory > 0 && sum > w.limits.Memory
}

// tables is the memory of the members' page tables, which nothing else counts: touching one page in
// every two megabytes costs a page of tables each. It is read only where the limit depends on it.
func (w *watch) tables(members []process) int64 {
	var sum int64
	for _, p := range members {
		if w.limits.Memory <= 0 {
			break
		}
		b, err := w.tree.file(strconv.Itoa(p.pid) + "/status")
		if kib, ok := field(b, "VmPTE:"); err == nil && ok {
			sum += kib << 10
		}
	}
	return sum
}

// nameBytes is roughly the kernel memory that a name in a file system in memory takes.
const nameBytes = 1 << 10

// inPlaces is the content of the room's file systems in memory. It belongs to no process, and the
// part that one has mapped counts twice, which is better than not at all.
func (w *watch) inPlaces() int64 {
	var sum int64
	for _, fd := range w.places {
		var fs unix.Statfs_t
		if w.limits.Memory > 0 && unix.Fstatfs(fd, &fs) == nil {
			sum += int64(fs.Blocks-fs.Bfree)*fs.Bsize + int64(fs.Files-fs.Ffree)*nameBytes
		}
	}
	return sum
}

// proportion is a process's PSS. A process that hides it counts with all its resident memory.
func (w *watch) proportion(p process) int64 {
	b, err := w.tree.file(strconv.Itoa(p.pid) + "/smaps_rollup")
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return 0 // the process is gone, and its memory with it
	}
	kib, ok := field(b, "Pss:")
	if err != nil || !ok {
		return p.pages * w.page
	}
	return kib << 10
}

// events returns the limit whose excess a cgroup has refused.
func (w *watch) events() string {
	if n, ok := w.counter(w.limits.Counters.OOM, "oom_kill"); ok && n > 0 {
		return limitMemory
	}
	if n, ok := w.counter(w.limits.Counters.PidsMax, "max"); ok && n > 0 {
		return limitProcesses
	}
	return ""
}

// counted is the CPU time by a cgroup's account.
func (w *watch) counted() (time.Duration, bool) {
	if n, ok := w.counter(w.limits.Counters.CPUNanos, ""); ok {
		return time.Duration(n), true
	}
	n, ok := w.counter(w.limits.Counters.CPUMicros, "usage_usec")
	return time.Duration(n) * time.Microsecond, ok
}

// counter reads the number in a file, or the one behind name.
func (w *watch) counter(path, name string) (int64, bool) {
	if path == "" {
		return 0, false
	}
	b, err := w.read(path)
	if err != nil {
		return 0, false
	}
	if name == "" {
		return number(bytes.TrimSpace(b))
	}
	return field(b, name)
}

// read reads a counter, by its path or from the descriptor that came with the room.
func (w *watch) read(path string) ([]byte, error) {
	if fd, ok := w.kept[path]; ok {
		n, err := unix.Pread(fd, w.tree.buf, 0)
		return w.tree.buf[:max(n, 0)], err
	}
	i, extra := cell.ExtraIndex(path)
	if !extra {
		return w.tree.file(path)
	}
	if !w.extra.counter(i) {
		return nil, unix.EBADF
	}
	n, err := unix.Pread(int(w.extra.files[i].Fd()), w.tree.buf, 0)
	return w.tree.buf[:max(n, 0)], err
}

// keep opens counters ahead. One that cannot be opened now is opened when it is read.
func (w *watch) keep(c *cell.Counters) {
	w.kept = map[string]int{}
	for _, path := range []string{c.OOM, c.PidsMax, c.PeakBytes, c.PeakPids, c.CPUNanos, c.CPUMicros} {
		if fd, err := unix.Openat(w.tree.proc, path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil && path != "" {
			w.kept[path] = fd
		}
	}
}

// set takes the limits of a Spec. It refuses counters that did not come with the room: they would
// silently not count.
func (w *watch) set(limits cell.Watch) error {
	c := &limits.Counters
	for _, path := range []string{c.OOM, c.PidsMax, c.PeakBytes, c.PeakPids, c.CPUNanos, c.CPUMicros} {
		if i, extra := cell.ExtraIndex(path); extra && !w.extra.counter(i) {
			return errors.New("cell: spec: a counter that did not come with the room")
		}
	}
	w.limits = limits
	if limits.Disk > 0 {
		w.disk.watched(limits.Disks, w.every())
	}
	return nil
}

// field finds the line that begins with name and returns the number behind it.
func field(b []byte, name string) (int64, bool) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) >= 2 && string(f[0]) == name {
			return number(f[1])
		}
	}
	return 0, false
}

// usage is the final account: counters as they stand now, else the walks' maxima and the sums of wait4.
func (w *watch) usage(reaped usage) cell.Usage {
	u := cell.Usage{PeakMemory: max(w.memory, reaped.memory), Processes: max(w.tasks, 1)}
	cpu := max(w.spent, reaped.cpu)
	if counted, ok := w.counted(); ok {
		cpu = counted
	}
	u.CPUMS = cpu.Milliseconds()
	if n, ok := w.counter(w.limits.Counters.PeakBytes, ""); ok {
		u.PeakMemory = n
	}
	if n, ok := w.counter(w.limits.Counters.PeakPids, ""); ok {
		u.Processes = n
	}
	return u
}
