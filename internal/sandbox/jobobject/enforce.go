package jobobject

import (
	"maps"
	"slices"

	"palyra"
)

// enforcement is what holds for every run. The network is not held.
func enforcement() palyra.Enforcement {
	return palyra.Enforcement{
		Mode: "none",
		Mechanisms: []string{
			"clean_env", "handle_list", "integrity_low", "job_object", "mitigation_policies", "private_home", "private_tmp", "privileges_dropped",
			"restricted_token", "ui_restrictions",
		},
		Limits: map[string]string{
			"wall": "timer", "cpu": "job_object_user_time", "memory": "job_object", "processes": "job_object", "open_files": "none", "file_size": "none",
			"output": "cap", "emitted": "counted", "disk": "none",
		},
	}
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
			return weak("the limit on %s would be %q, not %q", name, have, want)
		}
	}
	return nil
}
