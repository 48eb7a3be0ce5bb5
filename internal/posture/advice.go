package posture

import (
	"slices"
	"strings"

	"palyra"
)

// advice says what would make a tier hold more than it does, for what is weaker
// than it could be and yet held.
func advice(t palyra.TierPosture) []string {
	var notes []string
	cgroup := slices.ContainsFunc(t.Mechanisms, func(m string) bool { return strings.HasPrefix(m, "cgroup_") })
	if !cgroup {
		notes = append(notes, "memory and processes are counted now and then, not bounded by the kernel: "+delegate)
	}
	if !slices.ContainsFunc(t.Mechanisms, func(m string) bool { return strings.HasPrefix(m, "landlock_abi_") }) {
		notes = append(notes, "the kernel has no Landlock: boot one of 5.13 or later with CONFIG_SECURITY_LANDLOCK and lsm=…,landlock")
	}
	if slices.Contains(t.Mechanisms, "root_workspace") {
		notes = append(notes, "programs run as root without capabilities: run the daemon as an ordinary user, or give workspaces to one")
	}
	if t.Mode != "" && t.Mode != "strict" {
		notes = append(notes, "the network is "+t.Mode+", not strict: set egress.mode = \"strict\"")
	}
	return notes
}
