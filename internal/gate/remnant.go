package gate

import (
	"fmt"

	"palyra"
)

const (
	maxRemnantsBytes = 8 << 10
	maxRemnantBytes  = 768
)

// textOfRemnants returns remnants as they stand in records: a kind, a colon, the text of a path. Where they are
// more than a record takes, a last entry says how many are not listed. It is nil when there are none. A run chooses
// the names: the first of each kind comes first, and none is so long that another has no room.
func textOfRemnants(list []palyra.Remnant) []string {
	var out []string
	size := 0
	for i, r := range firstOfKinds(list) {
		text := string(r.Kind) + ": " + palyra.Clip(string(palyra.TextOfPath(r.Path)), maxRemnantBytes)
		if r.More > 0 {
			text += fmt.Sprintf(" and %d more", r.More)
		}
		if size += len(text); size > maxRemnantsBytes {
			return append(out, fmt.Sprintf("… and %d more", len(list)-i))
		}
		out = append(out, text)
	}
	return out
}

// firstOfKinds puts the first of each kind before the others.
func firstOfKinds(list []palyra.Remnant) []palyra.Remnant {
	seen := map[palyra.RemnantKind]bool{}
	var first, rest []palyra.Remnant
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
