package palyra

// RemnantKind is what kind of thing a run left behind that somebody should know of, and that was not taken away.
type RemnantKind string

// The kinds of remnants.
const (
	RemnantLink        RemnantKind = "link_leads_out"        // a new symbolic link that leads out of the workspace
	RemnantLinked      RemnantKind = "multiply_linked_files" // files with another name, perhaps outside: a write changes both
	RemnantTrusted     RemnantKind = "trusted_file_changed"  // a file that other programs heed and runs may write
	RemnantCommitted   RemnantKind = "sealed_path_committed" // a sealed name that came into git's index or a commit, or is gone from there
	RemnantPlaceholder RemnantKind = "placeholder_written"   // a file with placeholders of masked values, not the values
	RemnantUnread      RemnantKind = "repository_not_read"   // a repository in which that could not be looked for
	RemnantMany        RemnantKind = "too_many_files"        // more than is looked through before a run: the next is refused
	RemnantNotKept     RemnantKind = "quarantine_too_large"  // what was to go to quarantine, and is gone: its size and digest follow
	RemnantNotMoved    RemnantKind = "quarantine_failed"     // what was to go there, could not be moved, and went with its stage
	RemnantDropped     RemnantKind = "quarantine_dropped"    // an earlier call whose items were removed to make room
	// a repository that was made or changed in a cache of the run's; the path begins with the cache's name
	RemnantCache      RemnantKind = "repository_in_cache"
	RemnantUnsearched RemnantKind = "cache_not_searched" // a cache of the run's that could not be looked through for those, or not to its end
)

// Remnant is one of them.
type Remnant struct {
	Kind RemnantKind
	Path string // relative to the workspace, as bytes
	More int64  // of the kind, beyond this one
}

// Finding is a difference between the journal and the tables that follow from it.
type Finding struct {
	Seq int64  `json:"seq"` // of the line that a table contradicts; 0: there is none
	Why string `json:"why"`
}
