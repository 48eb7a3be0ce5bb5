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
	maxRemnantsBytes              = 8 << 10
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
// many are not listed. It is nil when there are none.
func TextOfRemnants(list []Remnant) []string {
	var out []string
	size := 0
	for i, r := range list {
		text := string(r.Kind) + ": " + string(TextOfPath(r.Path))
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
