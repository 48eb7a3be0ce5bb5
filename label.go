package palyra

import "slices"

// The labels of a session: what its calls did that policy should know of later. They are set by what was seen to
// happen and never taken away.
const (
	LabelUntrusted = "untrusted-input" // content came in that nobody here wrote
	LabelSecret    = "secret-read"     // a secret was used
	LabelSent      = "external-write"  // bytes went out
)

// JoinLabels returns the labels of both lists, sorted, each once; nil when there is none.
func JoinLabels(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
