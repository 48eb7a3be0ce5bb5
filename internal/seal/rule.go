package seal

import "palyra/internal/trusted"

// Rule is a name as it was read, for those who hold names by other means than the
// mounts of a snapshot: as text that a kernel reads.
type Rule struct {
	Parts []Part // between the slashes
	Keep  bool   // a directory of the name may be written in
	Every bool   // counts below node_modules as well
}

// Part is one part of a name.
type Part struct {
	Any        bool     // any number of directories
	Repository bool     // a directory that git takes for a repository
	Pieces     []string // otherwise: what is between the stars, folded
}

// Fits reports whether a file of the name is meant. Of a repository no name tells.
func (p Part) Fits(name string) bool {
	return !p.Any && !p.Repository && segment{pieces: p.Pieces}.fits(trusted.Fold(nil, name))
}

// Rules are the names of m, in their order.
func (m *Matcher) Rules() []Rule {
	var out []Rule
	for _, r := range m.rules {
		rule := Rule{Keep: r.keep, Every: r.every}
		for i, s := range r.segs {
			p := Part{Any: s.any, Repository: i == 0 && len(s.pieces) == 1 && s.pieces[0] == repository}
			if !p.Any && !p.Repository {
				p.Pieces = s.pieces
			}
			rule.Parts = append(rule.Parts, p)
		}
		out = append(out, rule)
	}
	return out
}

// Fold is a file's name in the form in which names are compared: two that some
// file system holds for equal have the same.
func Fold(name string) string { return string(trusted.Fold(nil, name)) }

// Spot is a directory, as the names see it. It belongs to the Matcher that made
// it.
type Spot struct {
	state int32
	below bool // node_modules
	repo  bool
}

// Begun reports whether a name has begun on the way to a directory: what stands in
// its place and leads elsewhere, a link, is as good as what the name is of.
func (s Spot) Begun() bool { return s.state != 0 }

// Start follows the names from the root of the file system to a workspace, which
// is an absolute path without links. One that is sealed, or lies in what is, is
// refused.
func (m *Matcher) Start(workspace string) (Spot, error) {
	w, err := m.way(workspace)
	if err != nil {
		return Spot{}, err
	}
	return Spot{state: m.number(w.start)}, nil
}

// Enter is the same directory, known to be one that git takes for a repository.
// It reports whether such a directory is kept.
func (m *Matcher) Enter(s Spot) (_ Spot, keeps bool) {
	s.repo = true
	s.state, keeps = m.enter(s.state)
	return s, keeps
}

// Step is an entry of a directory, should it be a directory as well. It reports
// whether the entry is sealed, or sealed unless it is a directory, and kept then.
func (m *Matcher) Step(s Spot, name string) (next Spot, seals, keeps bool) {
	folded := trusted.Fold(nil, name)
	what, state := m.step(s.state, folded, s.below)
	if s.repo && stored(folded) {
		state = m.store(state)
	}
	return Spot{state: state, below: s.below || string(folded) == "node_modules"}, what == full, what == keep
}
