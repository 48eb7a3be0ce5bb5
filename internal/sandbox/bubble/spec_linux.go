package bubble

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/refusal"
	"palyra/internal/sandbox/template"
	"palyra/internal/subpath"
)

const (
	watchEveryMS = 50
	firstTasks   = 2       // of the room's first process, which is counted with the run
	firstMemory  = 4 << 20 // the same in bytes
)

// check refuses a job that no Runner should give.
func (b *Backend) check(j sandbox.Job) error {
	bad := func(why string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bubble: %s", why)
	}
	why := b.fleet.Refuses(j)
	switch {
	case why != "":
		return bad(why)
	case !cells.Clean(j.Path):
		return bad("the program is not an absolute path")
	case len(j.Covers) > sandbox.MaxCovers || slices.ContainsFunc(j.Covers, badCover):
		return bad("too many covers, or one without an absolute path or a file")
	case len(j.Doors) > cell.MaxDoors || (len(j.Doors) > 0 && j.Open == nil):
		return bad("too many doors, or nobody behind them")
	}
	if j.UID != 0 && b.noUser != nil {
		return b.noUser
	}
	return nil
}

func badCover(c sandbox.Cover) bool {
	return !cells.Clean(c.Path) || c.File == nil || c.Below != "" && (!cells.Clean(c.Below) || !subpath.Within(c.Below, c.Path))
}

// filterOf is the filter of everything in a room.
func (b *Backend) filterOf(w *want, c *cells.Keeper, watching cell.Watching) ([]byte, error) {
	uid, gid := w.room.Inside()
	return b.fleet.Filter(cells.Subject{
		Owner: uint32(uid), Group: uint32(gid), Polled: c.Cgroups().Memory == "", Room: true, Unix: w.unix,
		Watch: watching != (cell.Watching{}),
	})
}

// spec writes down a job for a keeper.
func (b *Backend) spec(j sandbox.Job, k *keeper) (cell.Spec, error) {
	filter, err := b.filterOf(k.want, k.Keeper, k.watching)
	if err != nil {
		return cell.Spec{}, err
	}
	s := cell.Spec{
		Version: cell.Version, Path: j.Path, Sealed: j.Sealed != nil, Cover: j.Sealed != nil, Argv: j.Argv, Env: j.Env, Cwd: j.Cwd,
		Terminal: j.Terminal, Landlock: cell.Landlock{FS: cells.Handled(b.fleet.Host.ABI)}, Filter: filter, // those of the room hold
		Watch: cell.Watch{EveryMS: watchEveryMS, CPUMS: j.Limits.CPUMS, Counters: k.counters, Disk: j.Limits.DiskBytes, Disks: disks(j, k)},
	}
	if s.Env == nil {
		s.Env = []string{}
	}
	c := k.Cgroups()
	s.Watch.Processes = j.Limits.Processes // a cgroup leaves room for the first process, which the run must not use
	if c.Memory == "" {
		s.Watch.Memory = j.Limits.MemoryBytes
	}
	var tasks int64
	if c.Pids == "" {
		tasks = j.Limits.Processes + firstTasks
	}
	s.Rlimits = k.Rlimits(j.Limits, tasks)
	s.Watch.Ceiling = ceiling(s.Rlimits)
	return s, nil
}

// disks returns the writable places of a job that are not the room's own.
func disks(j sandbox.Job, k *keeper) []string {
	out := []string{j.Workspace}
	if k.stage != nil {
		out = append(out, bwrap.StagesPath)
		if j.Repository.Path != "" {
			out = append(out, j.Repository.Path)
		}
	}
	for _, m := range j.Mounts {
		if m.Writable {
			out = append(out, m.Target)
		}
	}
	return out
}

// ceiling is the number of tasks that the kernel allows a room, where an rlimit sets it.
func ceiling(all []cell.Rlimit) int64 {
	for _, l := range all {
		if l.Resource == unix.RLIMIT_NPROC && l.Value < cells.MaxID {
			return int64(l.Value)
		}
	}
	return 0
}

// landlock is the ruleset of a room: it repeats the mounts' restrictions by another mechanism.
func (b *Backend) landlock(w *want) cell.Landlock {
	l := cells.Masks(b.fleet.Host.ABI)
	l.Net = 0 // the room has a network of its own
	work := cells.ToWork
	if w.unix {
		work |= unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	}
	add := func(path string, access uint64, optional bool) {
		l.Rules = append(l.Rules, cell.Rule{Path: path, Access: access & l.FS, Optional: optional, Plain: true})
	}
	devices := func() {
		for _, p := range strings.Fields("null zero full random urandom tty pts") {
			add("/dev/"+p, cells.ToTalk, true)
		}
	}
	if w.cage != nil {
		caged(w, add)
		devices()
		return l
	}
	add("/", cells.ToRun, false)
	for _, p := range append(bwrap.Writable(), w.room.Workspace) {
		add(p, work, false)
	}
	if w.stage && w.room.Repository.Path != "" {
		add(w.room.Repository.Path, work, false)
	}
	for _, m := range w.room.Mounts {
		if m.Writable {
			add(m.Target, work, false)
		}
	}
	devices()
	return l
}

// allowed returns the limits for a keeper's cgroups. The first process is in them too, and gets its share on top.
func (k *keeper) allowed(l palyra.Limits) palyra.Limits {
	if k.Group != nil {
		l.Processes += firstTasks
		l.MemoryBytes += firstMemory
		if k.Group.Version == 1 { // v1 hardly counts memory of the kernel
			l.MemoryBytes -= firstMemory / 2
		}
	}
	return l
}

// explain turns a cell's failure into what a person can act on.
func (b *Backend) explain(r cell.Report) error {
	cause := refusal.Cause(r)
	switch {
	case r.Step == "exec":
		return refusal.NotExecutable(r, "tier C can run programs of the system (/usr, /bin, and what in /opt and /usr/local is root's and "+
			"readable by everybody), of the workspace and of what the profile mounts")
	case r.Step == "seal" && r.Errno == int(unix.ESTALE):
		return refusal.SpawnFailed("the sealed paths of the workspace changed while the room was built").
			WithRemedy("try again when nobody changes them").WithCause(errors.Join(template.ErrChanged, cause))
	case r.Step == cell.StepStage:
		return b.notStaged(r, cause)
	case r.Step == cell.StepWatching:
		if !b.unwatched.Swap(true) {
			b.fleet.Log.Warn("rooms cannot be kept from watching too many files, so they may watch none", "err", cause)
		}
		return refusal.SpawnFailed("what a room watches cannot be bounded here").WithCause(errors.Join(template.ErrChanged, cause))
	}
	return refusal.NotStarted(r)
}
