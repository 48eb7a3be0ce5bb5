package policy

import (
	"slices"
	"strings"
)

// Project reports whether policies of a workspace took part in a verdict: by the
// ids of the policies that decided, or because they were broken, which is among
// the faults. Such a verdict
// cannot be reached again, since those policies are nowhere kept.
func Project(decided, faults []string) bool {
	return slices.ContainsFunc(decided, func(id string) bool { return strings.HasPrefix(id, projectPrefix) }) ||
		slices.ContainsFunc(faults, func(text string) bool { return strings.HasPrefix(text, brokenPrefix) })
}

// brokenPrefix is how the error of a broken project begins.
const brokenPrefix = "the policies of the workspace (" + ProjectDir + ") are broken"
