package seatbelt

import (
	"fmt"
	"maps"
	"slices"

	"palyra"
	"palyra/internal/sandbox"
)

// enforcement is what holds for every run with these limits.
func enforcement(l palyra.Limits) palyra.Enforcement {
	e := palyra.Enforcement{
		Mode: "strict",
		Mechanisms: []string{
			"clean_env", "loopback_proxy_only", "mach_services_listed", "private_home", "private_tmp", "process_tree_polled", "read_only_system",
			"sandbox_exec", "sealed_paths", "signal_scope",
		},
		Limits: map[string]string{
			"wall": "timer", "cpu": "rlimit", "memory": "none", "processes": "polled", "open_files": "rlimit", "file_size": "rlimit",
			"output": "cap", "emitted": "counted", "disk": "none",
		},
	}
	if l.Processes == 1 {
		e.Limits["processes"] = "profile" // which lets it make none
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

// checkPromise refuses a run for which other things would hold than were promised.
func checkPromise(e, promised palyra.Enforcement) error {
	weak := func(format string, args ...any) error {
		return palyra.Errorf(palyra.Denied, palyra.ReasonWeakEnforcement, "less would hold than the plan promises: "+format, args...).
			WithRemedy("propose the call again: the plan will say what this host can keep now")
	}
	if promised.Mode != "" && e.Mode != promised.Mode {
		return weak("the network would be %q, not %q", e.Mode, promised.Mode)
	}
	for _, m := range promised.Mechanisms {
		if !slices.Contains(e.Mechanisms, m) {
			return weak("%s is missing", m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(promised.Limits)) {
		if want, have := promised.Limits[name], e.Limits[name]; have != want && want != "none" {
			return weak("the limit on %s would be %q, not %q", name, have, fmt.Sprint(want))
		}
	}
	return nil
}
