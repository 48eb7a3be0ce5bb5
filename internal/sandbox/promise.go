package sandbox

import (
	"fmt"
	"maps"
	"slices"

	"palyra"
)

// Lacks names the promises that do not hold. More than was promised is fine; a promise without a
// network mode promises nothing about the network.
func Lacks(promised, held palyra.Enforcement) []string {
	var what []string
	if promised.Mode != "" && promised.Mode != held.Mode {
		what = append(what, "network "+string(promised.Mode))
	}
	for _, m := range promised.Mechanisms {
		if !slices.Contains(held.Mechanisms, m) {
			what = append(what, m)
		}
	}
	for _, l := range slices.Sorted(maps.Keys(promised.Limits)) {
		if !held.Limits[l].AtLeast(promised.Limits[l]) {
			what = append(what, fmt.Sprintf("%s by %s", l, promised.Limits[l]))
		}
	}
	return what
}

// CheckPromise refuses a run for which less would hold than was promised.
func CheckPromise(held, promised palyra.Enforcement) error {
	if lacks := Lacks(promised, held); len(lacks) > 0 {
		return palyra.Errorf(palyra.Denied, palyra.ReasonWeakEnforcement, "less would hold than the plan promises: %s", fewNames(lacks)).
			WithRemedy("propose the call again: the plan will say what this host can keep now")
	}
	return nil
}
