package cells

import (
	"fmt"
	"maps"
	"slices"

	"palyra"
)

// Enforcement is what holds for every run on this host with these cgroups, with
// the mechanisms that are the tier's own.
func (f *Fleet) Enforcement(c Cgroups, mechanisms ...string) palyra.Enforcement {
	e := palyra.Enforcement{
		Mode: "strict",
		Mechanisms: append([]string{
			"cell", "no_new_privs", fmt.Sprintf("landlock_abi_%d", f.Host.ABI), "seccomp", "private_tmp", "clean_env", "capabilities_dropped",
		}, mechanisms...),
		Limits: map[string]string{
			"wall": "timer", "cpu": "rlimit+polled", "memory": "polled", "processes": "polled", "open_files": "rlimit", "file_size": "rlimit",
			"output": "cap", "emitted": "counted", "disk": "polled",
		},
	}
	if c.Version != 0 {
		e.Mechanisms = append(e.Mechanisms, fmt.Sprintf("cgroup_v%d", c.Version))
	}
	if c.Memory != "" {
		e.Limits["memory"] = "cgroup"
	}
	if c.Pids != "" {
		e.Limits["processes"] = "cgroup"
	}
	slices.Sort(e.Mechanisms)
	return e
}

// Clone is a copy of e that can be changed.
func Clone(e palyra.Enforcement) palyra.Enforcement {
	e.Mechanisms, e.Limits = slices.Clone(e.Mechanisms), maps.Clone(e.Limits)
	return e
}

// strength orders the ways to keep a limit. One that is not here is as good as
// itself only.
var strength = map[string]int{"none": 1, "polled": 2, "rlimit": 3, "rlimit+polled": 4, "cgroup": 5}

// Weaker says in what way e keeps less than was promised, or nothing.
func Weaker(e, promised palyra.Enforcement) string {
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

// CheckPromise refuses a run for which less would hold than was promised.
func CheckPromise(e, promised palyra.Enforcement) error {
	if why := Weaker(e, promised); why != "" {
		return palyra.Errorf(palyra.Denied, palyra.ReasonWeakEnforcement, "less would hold than the plan promises: %s", why).
			WithRemedy("propose the call again: the plan will say what this host can keep now")
	}
	return nil
}
