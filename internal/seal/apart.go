package seal

import (
	"maps"
	"slices"
)

// Apart is a copy of s for ScanAgain, which may be used while s is in use: it has what was seen,
// but nothing about runs.
func (s *Snapshot) Apart() *Snapshot {
	return &Snapshot{
		workspace: s.workspace, root: s.root, limits: s.limits, match: s.match.clone(), start: s.start, above: s.above, began: s.began, bare: s.bare, shared: s.shared, sharing: s.sharing,
		dirs: s.dirs, entries: s.entries,
	}
}

// Weight is roughly the number of paths that s remembers.
func (s *Snapshot) Weight() int { return len(s.dirs) + len(s.entries) }

// clone is a matcher with the state numbers of m, which numbers new states by itself.
func (m *Matcher) clone() *Matcher {
	c := *m
	c.sets, c.known = slices.Clone(m.sets), maps.Clone(m.known)
	c.rules, c.roots, c.held = slices.Clip(m.rules), slices.Clip(m.roots), slices.Clip(m.held)
	return &c
}
