package cells

import (
	"fmt"
	"maps"
	"slices"

	"palyra"
)

// Enforcement is what holds for every run on this host with these cgroups, with the mechanisms that
// are the tier's own.
func (f *Fleet) Enforcement(c Cgroups, mechanisms ...string) palyra.Enforcement {
	e := palyra.Enforcement{
		Mode: palyra.NetworkStrict,
		Mechanisms: append([]string{
			"cell", "no_new_privs", fmt.Sprintf("landlock_abi_%d", f.Host.ABI), "seccomp", "private_tmp", "clean_env", "capabilities_dropped",
		}, mechanisms...),
		Limits: map[string]palyra.Hold{
			"wall": palyra.HoldTimer, "cpu": palyra.HoldBoth, "memory": palyra.HoldPolled, "processes": palyra.HoldPolled,
			"open_files": palyra.HoldRlimit, "file_size": palyra.HoldRlimit,
			"output": palyra.HoldCap, "emitted": palyra.HoldCounted, "disk": palyra.HoldPolled,
		},
	}
	if c.Version != 0 {
		e.Mechanisms = append(e.Mechanisms, fmt.Sprintf("cgroup_v%d", c.Version))
	}
	if c.Memory != "" {
		e.Limits["memory"] = palyra.HoldCgroup
	}
	if c.Pids != "" {
		e.Limits["processes"] = palyra.HoldCgroup
	}
	slices.Sort(e.Mechanisms)
	return e
}

// Clone is a copy of e that can be changed.
func Clone(e palyra.Enforcement) palyra.Enforcement {
	e.Mechanisms, e.Limits = slices.Clone(e.Mechanisms), maps.Clone(e.Limits)
	return e
}
