package seal

import "palyra/internal/trusted"

// Rule is a parsed name, for backends that enforce names by other means than the mounts of a
// snapshot, such as a profile text for the kernel.
type Rule struct {
	Parts []Part // between the slashes
	Keep  bool   // a directory of the name may be written in
	Every bool   // counts below node_modules as well
}

// Part is one part of a name.
type Part struct {
	Any        bool     // "**": any number of directories
	Repository bool     // a directory that git takes for a repository
	Pieces     []string // otherwise: the text between the stars, folded
}

// Fits reports whether a file name matches the part; always false for a repository, which no name tells.
func (p Part) Fits(name string) bool {
	return !p.Any && !p.Repository && segment{pieces: p.Pieces}.fits(trusted.Fold(nil, name))
}

// Rules returns the names of m, in their order.
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

// Fold is a file's name in the form in which names are compared: two that some file system takes
// for equal have the same.
func Fold(name string) string { return string(trusted.Fold(nil, name)) }

// Spot is a directory and the state of the names there. It belongs to the Matcher that made it.
type Spot struct {
	state int32
	below bool // below node_modules
	repo  bool
}

// Begun reports whether a name has begun on the way to a directory: a link in its place then counts
// like the path that the name would match.
func (s Spot) Begun() bool { return s.state != 0 }

// Start follows the names from the root of the file system to a workspace, an absolute path without
// links. It refuses a workspace that is sealed, or lies in a sealed directory.
func (m *Matcher) Start(workspace string) (Spot, error) {
	w, err := m.way(workspace)
	if err != nil {
		return Spot{}, err
	}
	return Spot{state: m.number(w.start)}, nil
}

// Enter is the same directory, known to be a repository. It reports whether repositories are kept.
func (m *Matcher) Enter(s Spot) (_ Spot, keeps bool) {
	s.repo = true
	s.state, keeps = m.enter(s.state)
	return s, keeps
}

// Step is an entry of a directory, should it be a directory as well. seals: the entry is sealed;
// keeps: it is kept if it is a directory, and sealed otherwise.
func (m *Matcher) Step(s Spot, name string) (next Spot, seals, keeps bool) {
	folded := trusted.Fold(nil, name)
	what, state := m.step(s.state, folded, s.below)
	if s.repo && stored(folded) {
		state = m.store(state)
	}
	return Spot{state: state, below: s.below || string(folded) == "node_modules"}, what == full, what == keep
}
