package cells

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
)

// The limits where a plan names none.
const (
	defaultCPUMS     = 10 * 60 * 1000
	defaultMemory    = 2 << 30
	defaultProcesses = 512
	defaultFiles     = 1024
	defaultFileBytes = 1 << 30
	defaultDiskBytes = 16 << 30
)

const (
	lockedMemory = 64 << 10 // enough for a key, too little to pin memory
	dataSlack    = 1 << 30  // memory that is reserved and not used does not count
	pending      = 4096     // signals and timers, which are counted by user: enough for any program, too few to exhaust the user's
	sigpending   = 11       // RLIMIT_SIGPENDING, which x/sys does not name
	msgqueue     = 12       // RLIMIT_MSGQUEUE, the same
)

// markLimit is the rlimit that carries the mark: RLIMIT_LOCKS, which kernels since 2.4.25 keep and
// pass on but never use. The filter refuses to change it.
const markLimit = 10

// WithDefaults fills in the limits that a plan leaves to the tier.
func WithDefaults(l palyra.Limits) palyra.Limits {
	fill := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	fill(&l.CPUMS, defaultCPUMS)
	fill(&l.MemoryBytes, defaultMemory)
	fill(&l.Processes, defaultProcesses)
	fill(&l.OpenFiles, defaultFiles)
	fill(&l.FileBytes, defaultFileBytes)
	fill(&l.DiskBytes, defaultDiskBytes)
	return l
}

// Rlimits are the second line of defence: each binds one process, and those that another mechanism
// binds for the whole tree are higher, so that it acts first and can name the limit. Where a cgroup
// bounds memory or tasks there is no rlimit behind it: it would only fail an allocation before the
// cgroup could name the reason. tasks bounds the run's user where no cgroup bounds the run.
func (k *Keeper) Rlimits(l palyra.Limits, tasks int64) []cell.Rlimit {
	all := lowered(rlimits(l, k.Mark, k.Cgroups(), tasks))
	if !k.room {
		return all
	}
	has := k.RoomRlimits()
	return slices.DeleteFunc(all, func(l cell.Rlimit) bool { return slices.Contains(has, l) })
}

// RoomRlimits are those of everything in a room, from the beginning: the filter lets nobody set them.
func (k *Keeper) RoomRlimits() []cell.Rlimit { return lowered(fixedRlimits(k.Mark)) }

func fixedRlimits(mark uint64) []cell.Rlimit {
	return []cell.Rlimit{{Resource: unix.RLIMIT_CORE, Value: noCore}, {Resource: markLimit, Value: mark}}
}

func rlimits(l palyra.Limits, mark uint64, c Cgroups, tasks int64) []cell.Rlimit {
	out := []cell.Rlimit{
		{Resource: unix.RLIMIT_NOFILE, Value: uint64(l.OpenFiles)},
		{Resource: unix.RLIMIT_FSIZE, Value: uint64(l.FileBytes)},
		{Resource: unix.RLIMIT_CPU, Value: uint64((l.CPUMS+999)/1000) + 1},
		{Resource: unix.RLIMIT_MEMLOCK, Value: lockedMemory},
		{Resource: sigpending, Value: pending},
		{Resource: msgqueue, Value: 0},
	}
	out = append(out, fixedRlimits(mark)...)
	if c.Memory == "" { // not AS: Node and Go reserve far more than they use, and a thread's stack counts whole
		out = append(out, cell.Rlimit{Resource: unix.RLIMIT_DATA, Value: 4*uint64(l.MemoryBytes) + dataSlack})
	}
	if c.Pids == "" {
		out = append(out, cell.Rlimit{Resource: unix.RLIMIT_NPROC, Value: uint64(tasks)})
	}
	return out
}

// lowered lowers limits to the daemon's own: nobody but root can raise one.
func lowered(limits []cell.Rlimit) []cell.Rlimit {
	for i, l := range limits {
		var own unix.Rlimit
		if err := unix.Getrlimit(l.Resource, &own); err == nil && l.Resource != markLimit {
			limits[i].Value = min(l.Value, own.Max)
		}
	}
	return limits
}

// tasksOf counts the threads of a user, as RLIMIT_NPROC does. An unreadable process has just ended.
func tasksOf(proc string, uid int64) int64 {
	var n int64
	for _, pid := range processes(proc) {
		st, err := os.Stat(proc + "/" + strconv.Itoa(pid) + "/task")
		if err != nil {
			continue
		}
		if s, ok := st.Sys().(*syscall.Stat_t); ok && int64(s.Uid) == uid {
			n += max(1, int64(s.Nlink)-2)
		}
	}
	return n
}

// count is how many tasks a user had at a time.
type count struct {
	tasks int64
	at    time.Time
}

// countFor is how long a count is used again: looking at every process of a busy machine costs more
// than the launch.
const countFor = time.Second

// Tasks is roughly how many tasks a user has now.
func (f *Fleet) Tasks(uid int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.counted[uid]
	if !ok || time.Since(c.at) > countFor {
		c = count{tasksOf(f.Host.Proc, uid), time.Now()}
		clear(f.counted)
		f.counted[uid] = c
	}
	return c.tasks
}

// processes lists the pids in /proc.
func processes(proc string) []int {
	d, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(-1)
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// noCore is a limit of one byte: no file is written, and a core_pattern that names a program is not
// followed either, as it would be with a limit of 0. So no program of the host reads a run's memory
// because the run crashed. The filter keeps it: a limit can always be lowered.
const noCore = 1
