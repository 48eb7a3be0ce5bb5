package confine

import (
	"slices"
	"strings"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
)

// enforcement is what holds for every run on a host with these cgroups.
func enforcement(f *cells.Fleet, c cells.Cgroups) palyra.Enforcement {
	own := []string{"no_network"}
	if f.Host.ABI >= cells.LandlockScope {
		own = append(own, "landlock_signal_scope", "landlock_abstract_scope")
	}
	return f.Enforcement(c, own...)
}

// applied is what holds for one job on top of that.
func applied(e palyra.Enforcement, j sandbox.Job) palyra.Enforcement {
	e = cells.Clone(e)
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
