package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// watchEveryMS is how often the cell looks.
const watchEveryMS = 50

// spec writes down a job for a keeper.
func (b *Backend) spec(j sandbox.Job, k *keeper) (cell.Spec, error) {
	filter, err := b.filterFor(subject{b.host.abi, uint32(j.UID), uint32(j.GID), k.groups().memory == ""})
	if err != nil {
		return cell.Spec{}, err
	}
	room, err := landlock(j, b.host.rules, b.host.abi, k.anew())
	if err != nil {
		return cell.Spec{}, spawnFailed("a directory of the run is not there").WithCause(err)
	}
	s := cell.Spec{
		Version: cell.Version, Path: j.Path, Sealed: j.Sealed != nil, Argv: j.Argv, Env: j.Env, Cwd: j.Cwd,
		Terminal: j.Terminal, Landlock: room, Filter: filter,
		Watch: cell.Watch{EveryMS: watchEveryMS, CPUMS: j.Limits.CPUMS},
	}
	if s.Env == nil {
		s.Env = []string{}
	}
	if b.uid == 0 {
		s.Identity = &cell.Identity{UID: int(j.UID), GID: int(j.GID)}
	}
	var tasks int64
	if k.groups().pids == "" || j.Limits.Processes < launchTasks {
		s.Watch.Processes = j.Limits.Processes
	}
	if k.groups().pids == "" {
		tasks = b.tasks(j.UID)
	}
	if k.groups().memory == "" {
		s.Watch.Memory = j.Limits.MemoryBytes
	}
	if k.group != nil {
		s.Watch.Counters = k.counters
	}
	s.Rlimits = lowered(rlimits(j.Limits, k.mark, k.groups(), tasks))
	return s, nil
}

// check refuses a job that no Runner should give.
func (b *Backend) check(j sandbox.Job) error {
	bad := func(why string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "confine: %s", why)
	}
	clean := func(p string) bool { return filepath.IsAbs(p) && filepath.Clean(p) == p && p != "/" }
	switch {
	case j.Stdin == nil || j.Stdout == nil || j.Stderr == nil:
		return bad("a standard stream is missing")
	case j.Sealed == nil && !clean(j.Path):
		return bad("the program is not an absolute path")
	case !clean(j.Workspace) || !clean(j.Private):
		return bad("the workspace or the private directory is not an absolute path")
	case j.Cwd != j.Workspace && !strings.HasPrefix(j.Cwd, j.Workspace+"/"):
		return bad("the working directory is outside the workspace")
	case len(j.Argv) == 0:
		return bad("no arguments, not even the program's name")
	case j.UID < 0 || j.GID < 0 || j.UID > maxID || j.GID > maxID:
		return bad("no such user or group")
	case b.uid != 0 && j.UID != b.uid:
		return bad("only root can run a program as somebody else")
	}
	return nil
}

const maxID = 1<<32 - 2

func spawnFailed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, format, args...).WithRemedy("see the daemon's log")
}

// jobFiles are what goes with an order to run. The program's streams block:
// programs do not expect anything else.
func jobFiles(spec *os.File, j sandbox.Job) []int {
	fds := []int{int(spec.Fd())}
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		_ = unix.SetNonblock(int(f.Fd()), false) // cannot fail for an open file
		fds = append(fds, int(f.Fd()))
	}
	if j.Sealed != nil {
		fds = append(fds, int(j.Sealed.Fd()))
	}
	return fds
}

// filterFor assembles the filter once for every user.
func (b *Backend) filterFor(s subject) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.filters[s]; ok {
		return f, nil
	}
	prog, err := filter(b.host.arch, s)
	if err != nil {
		return nil, err
	}
	f, err := raw(prog)
	if err != nil {
		return nil, err
	}
	if len(b.filters) >= maxFilters {
		clear(b.filters)
	}
	b.filters[s] = f
	return f, nil
}

const maxFilters = 64

// explain turns a cell's failure into what a person can act on.
func explain(r cell.Report) error {
	why := r.Text
	if errno := errnoText(r.Errno); errno != "" {
		why = errno
	}
	if r.Step == "exec" {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonNotExecutable, "the program cannot be executed here: %s", palyra.Clip(why, 200)).
			WithRemedy("tier B can run programs of the system (/usr, /bin, /opt) and of the workspace")
	}
	return spawnFailed("the cell could not start the program at step %q: %s", palyra.Clip(r.Step, 32), palyra.Clip(why, 200)).
		WithCause(fmt.Errorf("confine: cell: %s: %s", r.Step, r.Text))
}
