package confine

import (
	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/refusal"
)

const (
	watchEveryMS = 50   // interval of the cell's looks
	spareTasks   = 1024 // for the user's other work, which grows after the count and shares the limit
)

// spec writes down a job for a keeper.
func (b *Driver) spec(j sandbox.Job, k *keeper) (cell.Spec, error) {
	base, anew := k.base()
	room, err := landlock(j, base, b.fleet.Host.ABI, anew)
	if err != nil {
		return cell.Spec{}, refusal.SpawnFailed("a directory of the run is not there").WithCause(err)
	}
	s := cell.Spec{
		Version: cell.Version, Path: j.Path, Sealed: j.Sealed != nil, Argv: j.Argv, Env: j.Env, Cwd: j.Cwd,
		Terminal: j.Terminal, Landlock: room, Filter: k.became.Filter, Identity: k.became.Identity,
		Watch: cell.Watch{EveryMS: watchEveryMS, CPUMS: j.Limits.CPUMS, Disk: j.Limits.DiskBytes, Disks: []string{j.Workspace, j.Private}},
	}
	if s.Env == nil {
		s.Env = []string{}
	}
	var tasks int64
	if k.Cgroups().Pids == "" {
		tasks = b.fleet.Tasks(j.UID) + j.Limits.Processes + spareTasks
	}
	if k.Cgroups().Pids == "" || j.Limits.Processes < cells.LaunchTasks {
		s.Watch.Processes = j.Limits.Processes
	}
	if k.Cgroups().Memory == "" {
		s.Watch.Memory = j.Limits.MemoryBytes
	}
	s.Watch.Counters = k.Counters()
	s.Rlimits = k.Rlimits(j.Limits, tasks)
	return s, nil
}

// check refuses a job that no Runner should give.
func (b *Driver) check(j sandbox.Job) error {
	bad := func(why string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "confine: %s", why)
	}
	why := b.fleet.Refuses(j)
	switch {
	case why != "":
		return bad(why)
	case j.Sealed == nil && !cells.Clean(j.Path):
		return bad("the program is not an absolute path")
	case !cells.Clean(j.Private):
		return bad("the private directory is not an absolute path")
	case len(j.Covers) > 0:
		return bad("there is no room to cover files in")
	}
	return nil
}

// explain turns a cell's failure into what a person can act on.
func explain(r cell.Report) error {
	if r.Step == "exec" {
		return refusal.NotExecutable(r, "tier B can run programs of the system (/usr, /bin, and what in /opt and /usr/local is root's and "+
			"readable by everybody) and of the workspace")
	}
	return refusal.NotStarted(r)
}
