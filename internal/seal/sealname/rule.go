package sealname

import (
	"maps"
	"slices"

	"palyra/internal/trusted"
)

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

// From is the spot of a workspace with what has begun on the way to it.
func (m *Matcher) From(start []Place) Spot { return Spot{state: m.Number(slices.Clone(start))} }

// Within is From with the names that begin at the workspace only.
func (m *Matcher) Within(start []Place) Spot { return Spot{state: m.Root(start)} }

// Enter is the same directory, known to be a repository. It reports whether repositories are kept.
func (m *Matcher) Enter(s Spot) (_ Spot, keeps bool) {
	s.repo = true
	s.state, keeps = m.Into(s.state)
	return s, keeps
}

// Step is an entry of a directory, should it be a directory as well. seals: the entry is sealed;
// keeps: it is kept if it is a directory, and sealed otherwise.
func (m *Matcher) Step(s Spot, name string) (next Spot, seals, keeps bool) {
	folded := trusted.Fold(nil, name)
	what, state := m.Next(s.state, folded, s.below)
	if s.repo && InStore(folded) {
		state = m.Stored(state)
	}
	return Spot{state: state, below: s.below || string(folded) == "node_modules"}, what == Full, what == Keep
}

// Clone is a matcher with the state numbers of m, which numbers new states by itself.
func (m *Matcher) Clone() *Matcher {
	c := *m
	c.sets, c.known = slices.Clone(m.sets), maps.Clone(m.known)
	c.rules, c.roots, c.held = slices.Clip(m.rules), slices.Clip(m.roots), slices.Clip(m.held)
	return &c
}

// Names are what the matcher was made of.
func (m *Matcher) Names() []string { return m.names }

// Held are the anchors.
func (m *Matcher) Held() []Anchor { return m.held }

// Repositories reports whether a name begins with a repository.
func (m *Matcher) Repositories() bool { return len(m.repos) > 0 }

// Places are the names that have begun, by the number of a state.
func (m *Matcher) Places(state int32) []Place { return m.sets[state] }

// Has reports whether a name has such a part.
func (m *Matcher) Has(rule, seg int) bool {
	return rule >= 0 && rule < len(m.rules) && seg >= 0 && seg < len(m.rules[rule].segs)
}
