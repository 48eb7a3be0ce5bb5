package seatbelt

import (
	"slices"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// enforcement is what holds for every run with these limits.
func enforcement(l palyra.Limits) palyra.Enforcement {
	e := palyra.Enforcement{
		Mode: palyra.NetworkStrict,
		Mechanisms: []string{
			"clean_env", "loopback_proxy_only", "mach_services_listed", "private_home", "private_tmp", "process_tree_polled", "read_only_system",
			"sandbox_exec", cell.SealedPaths, "signal_scope",
		},
		Limits: map[string]palyra.Hold{
			"wall": palyra.HoldTimer, "cpu": palyra.HoldRlimit, "memory": palyra.HoldNone, "processes": palyra.HoldPolled,
			"open_files": palyra.HoldRlimit, "file_size": palyra.HoldRlimit,
			"output": palyra.HoldCap, "emitted": palyra.HoldCounted, "disk": palyra.HoldNone,
		},
	}
	if l.Processes == 1 {
		e.Limits["processes"] = palyra.HoldProfile // it lets the run make none
	}
	return e
}

// applied is what holds for one job on top of that.
func applied(j sandbox.Job) palyra.Enforcement {
	e := enforcement(j.Limits)
	if j.UID == 0 {
		e.Mechanisms = append(e.Mechanisms, "root_workspace")
	} else {
		e.Mechanisms = append(e.Mechanisms, "owner_uid")
	}
	if j.Sealed != nil {
		e.Mechanisms = append(e.Mechanisms, sandbox.Sealed)
	}
	if j.Unix {
		e.Mechanisms = append(e.Mechanisms, "unix_sockets")
	}
	slices.Sort(e.Mechanisms)
	return e
}
