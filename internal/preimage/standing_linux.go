package preimage

import (
	"palyra/internal/beneath"
	"palyra/internal/change"
)

// Standing are those of the changes that stand, as they are then: took says of paths whether what was there was taken
// away, made whether something was put there, and shut whether a directory got its mode at last.
func Standing(all []Replacement, took, made, shut map[string]bool) []Replacement {
	var out []Replacement
	for _, e := range all {
		p := string(e.Path)
		if e.Was.Kind != change.Nothing && !takenAt(took, p) || e.Was.Kind == change.Nothing && !made[p] {
			continue
		}
		if !made[p] {
			e.Now = change.State{}
		}
		if stands, later := shut[p]; later && !stands && e.Now.Kind == change.Directory {
			e.Now.Mode |= 0o700
		}
		out = append(out, e)
	}
	return out
}

// takenAt reports whether a path was taken away, by itself or with what it lies in.
func takenAt(took map[string]bool, p string) bool {
	for {
		if is, known := took[p]; known {
			return is
		}
		if p == "" {
			return false
		}
		p = beneath.Parent(p)
	}
}
