package seal

// Apart is a copy of s for ScanAgain, which may be used while s is in use: it has what was seen,
// but nothing about runs.
func (s *Snapshot) Apart() *Snapshot {
	return &Snapshot{
		workspace: s.workspace, root: s.root, limits: s.limits, match: s.match.Clone(), start: s.start, above: s.above, began: s.began,
		bare: s.bare, shared: s.shared, sharing: s.sharing,
		dirs: s.dirs, entries: s.entries,
	}
}

// Weight is roughly the number of paths that s remembers.
func (s *Snapshot) Weight() int { return len(s.dirs) + len(s.entries) }
