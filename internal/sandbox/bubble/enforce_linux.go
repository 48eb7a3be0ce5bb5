package bubble

import (
	"slices"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
)

// own are the mechanisms that tier C adds to those of every cell.
var own = []string{
	"bubblewrap", "ipc_namespace", "mount_namespace", "net_namespace", "pid_namespace", "private_home", "read_only_system",
	cell.SealedPaths, "user_namespace", "uts_namespace",
}

// enforcement is what holds for runs of a user with these cgroups. In a user namespace of its own the limit of
// processes counts the run's alone; but it never counts processes that are root outside.
func (b *Backend) enforcement(c cells.Cgroups, uid int64) palyra.Enforcement {
	e := b.fleet.Enforcement(c, own...)
	if c.Pids == "" && uid != 0 {
		e.Limits["processes"] = palyra.HoldRlimit
	}
	e.Limits["watches"] = watchLimit(b.watching(c.Memory == ""))
	return e
}

// applied is what holds for one job.
func (b *Backend) applied(k *keeper, j sandbox.Job) palyra.Enforcement {
	e := b.enforcement(k.Cgroups(), j.UID)
	e.Limits["watches"] = watchLimit(k.watching)
	if j.UID == 0 {
		e.Mechanisms = append(e.Mechanisms, "root_workspace")
	} else {
		e.Mechanisms = append(e.Mechanisms, "owner_uid")
	}
	if j.Sealed != nil {
		e.Mechanisms = append(e.Mechanisms, sandbox.Sealed)
	}
	if len(j.Seals) == 0 {
		e.Mechanisms = slices.DeleteFunc(e.Mechanisms, func(m string) bool { return m == cell.SealedPaths })
	}
	if j.Unix {
		e.Mechanisms = append(e.Mechanisms, "unix_sockets")
	}
	slices.Sort(e.Mechanisms)
	return e
}
