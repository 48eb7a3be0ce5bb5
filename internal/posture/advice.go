package posture

import (
	"slices"
	"strings"

	"palyra"
)

// advice says what would strengthen the parts of a tier that hold but are weaker than they could be.
func advice(t palyra.TierPosture) []string {
	var notes []string
	if counted := unboundedLimits(t); counted != "" {
		notes = append(notes, counted+" counted now and then, not bounded by the kernel: "+delegate)
	}
	if !slices.ContainsFunc(t.Mechanisms, func(m string) bool { return strings.HasPrefix(m, "landlock_abi_") }) {
		notes = append(notes, "the kernel has no Landlock: boot one of 5.13 or later with CONFIG_SECURITY_LANDLOCK and lsm=...,landlock")
	}
	if slices.Contains(t.Mechanisms, "root_workspace") {
		notes = append(notes, "programs run as root without capabilities: run the daemon as an ordinary user, or give workspaces to one")
	}
	if t.Mode != "" && t.Mode != palyra.NetworkStrict {
		notes = append(notes, "the network is "+string(t.Mode)+", not strict: set egress.mode = \"strict\"")
	}
	return notes
}

// unboundedLimits names those of memory and processes that the kernel does not bound in this tier, with the
// verb; "" where it bounds both.
func unboundedLimits(t palyra.TierPosture) string {
	var names []string
	if !strings.Contains(string(t.Limits["memory"]), "cgroup") { // a resource limit bounds one process, not the run
		names = append(names, "memory")
	}
	if how := string(t.Limits["processes"]); !strings.Contains(how, "cgroup") && !strings.Contains(how, "rlimit") {
		names = append(names, "processes")
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) == 1 && names[0] == "memory":
		return "memory is"
	}
	return strings.Join(names, " and ") + " are"
}
