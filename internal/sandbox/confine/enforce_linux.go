package confine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/sandbox"
)

// enforcement is what holds for every run on a host with these cgroups.
func enforcement(h host, c cgroups) palyra.Enforcement {
	e := palyra.Enforcement{
		Mode: "strict",
		Mechanisms: []string{
			"cell", "no_new_privs", fmt.Sprintf("landlock_abi_%d", h.abi), "seccomp", "no_network", "private_tmp", "clean_env", "capabilities_dropped",
		},
		Limits: map[string]string{
			"wall": "timer", "cpu": "rlimit+polled", "memory": "polled", "processes": "polled", "open_files": "rlimit", "file_size": "rlimit",
			"output": "cap", "emitted": "counted", "disk": "none",
		},
	}
	if h.abi >= landlockScope {
		e.Mechanisms = append(e.Mechanisms, "landlock_signal_scope", "landlock_abstract_scope")
	}
	if c.version != 0 {
		e.Mechanisms = append(e.Mechanisms, fmt.Sprintf("cgroup_v%d", c.version))
	}
	if c.memory != "" {
		e.Limits["memory"] = "cgroup"
	}
	if c.pids != "" {
		e.Limits["processes"] = "cgroup"
	}
	slices.Sort(e.Mechanisms)
	return e
}

// applied is what holds for one job on top of that.
func applied(e palyra.Enforcement, j sandbox.Job) palyra.Enforcement {
	e.Mechanisms, e.Limits = slices.Clone(e.Mechanisms), maps.Clone(e.Limits)
	if j.UID == 0 {
		e.Mechanisms = append(e.Mechanisms, "root_workspace")
	} else {
		e.Mechanisms = append(e.Mechanisms, "owner_uid")
	}
	if j.Sealed != nil || strings.HasPrefix(j.Path, j.Private+"/exe/") {
		e.Mechanisms = append(e.Mechanisms, sandbox.Sealed)
	}
	slices.Sort(e.Mechanisms)
	return e
}

// strength orders the ways to keep a limit. One that is not here is as good as
// itself only.
var strength = map[string]int{"none": 1, "polled": 2, "rlimit": 3, "rlimit+polled": 4, "cgroup": 5}

// weaker says in what way e keeps less than was promised, or nothing.
func weaker(e, promised palyra.Enforcement) string {
	if promised.Mode != "" && e.Mode != promised.Mode {
		return fmt.Sprintf("the network would be %q, not %q", e.Mode, promised.Mode)
	}
	for _, m := range promised.Mechanisms {
		if !slices.Contains(e.Mechanisms, m) {
			return m + " is missing"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(promised.Limits)) {
		want, have := promised.Limits[name], e.Limits[name]
		if have != want && (strength[want] == 0 || strength[have] < strength[want]) {
			return fmt.Sprintf("the limit on %s would be %q, not %q", name, have, want)
		}
	}
	return ""
}

func checkPromise(e, promised palyra.Enforcement) error {
	if why := weaker(e, promised); why != "" {
		return palyra.Errorf(palyra.Denied, palyra.ReasonWeakEnforcement, "less would hold than the plan promises: %s", why).
			WithRemedy("propose the call again: the plan will say what this host can keep now")
	}
	return nil
}
