package palyra

import "fmt"

// RemnantKind is what kind of thing a run left behind that somebody should know
// of, and that was not taken away.
type RemnantKind string

// The kinds of remnants.
const (
	RemnantLink       RemnantKind = "link_leads_out"        // a new symbolic link that leads out of the workspace
	RemnantLinked     RemnantKind = "multiply_linked_files" // files with another name, perhaps outside: a write changes both
	RemnantTrusted    RemnantKind = "trusted_file_changed"  // a file that other programs heed and runs may write
	RemnantCommitted  RemnantKind = "sealed_path_committed" // a sealed name that came into git's index or a commit, or is gone from there
	RemnantUnread     RemnantKind = "repository_not_read"   // a repository in which that could not be looked for
	RemnantMany       RemnantKind = "too_many_files"        // more than is looked through before a run: the next is refused
	RemnantNotKept    RemnantKind = "quarantine_too_large"  // what was to go to quarantine, and is gone: its size and digest follow
	RemnantNotMoved   RemnantKind = "quarantine_failed"     // what was to go to quarantine, could not be moved, and went with the stage that it was made on
	RemnantDropped    RemnantKind = "quarantine_dropped"    // an earlier call whose items were removed to make room
	RemnantCache      RemnantKind = "repository_in_cache"   // a repository that was made or changed in a cache of the run's; the path begins with the cache's name
	RemnantUnsearched RemnantKind = "cache_not_searched"    // a cache of the run's that could not be looked through for those, or not to its end
	maxRemnantsBytes              = 8 << 10
	maxRemnantBytes               = 768
	remnantsMoreFirst             = "…"
)

// Remnant is one of them.
type Remnant struct {
	Kind RemnantKind
	Path string // relative to the workspace, as bytes
	More int64  // of the kind, beyond this one
}

// TextOfRemnants returns remnants as they stand in records: a kind, a colon, the
// text of a path. Where they are more than a record takes, a last entry says how
// many are not listed. It is nil when there are none. A run chooses the names: the
// first of each kind comes first, and none is so long that another has no room.
func TextOfRemnants(list []Remnant) []string {
	var out []string
	size := 0
	for i, r := range firstOfKinds(list) {
		text := string(r.Kind) + ": " + Clip(string(TextOfPath(r.Path)), maxRemnantBytes)
		if r.More > 0 {
			text += fmt.Sprintf(" and %d more", r.More)
		}
		if size += len(text); size > maxRemnantsBytes {
			return append(out, fmt.Sprintf("%s and %d more", remnantsMoreFirst, len(list)-i))
		}
		out = append(out, text)
	}
	return out
}

// firstOfKinds puts the first of each kind before the others.
func firstOfKinds(list []Remnant) []Remnant {
	seen := map[RemnantKind]bool{}
	var first, rest []Remnant
	for _, r := range list {
		if seen[r.Kind] {
			rest = append(rest, r)
			continue
		}
		seen[r.Kind] = true
		first = append(first, r)
	}
	return append(first, rest...)
}
