package sealname

import (
	"slices"
	"strings"

	"palyra/internal/trusted"
)

// Anchor is a path of the workspace that must stay because something sealed leads there: a link in the place of a
// sealed file or directory, or git's own configuration. The remaining segments of the name are matched from there.
type Anchor struct {
	Path string
	Rule int // index of the name, whose segments from seg on must still match; -1: the path itself is sealed
	Seg  int
}

// MaxAnchors is the most anchors of one workspace.
const MaxAnchors = 512

// Add makes an anchor a rule. It leaves out an anchor whose path would be the workspace itself.
func (m *Matcher) Add(a Anchor) {
	if a.Path == "" || slices.Contains(m.held, a) {
		return
	}
	r := rule{every: true}
	for part := range strings.SplitSeq(a.Path, "/") {
		r.segs = append(r.segs, segment{pieces: []string{string(trusted.Fold(nil, part))}})
	}
	if a.Rule >= 0 {
		r.keep = m.rules[a.Rule].keep
		r.segs = append(r.segs, m.rules[a.Rule].segs[a.Seg:]...)
	}
	m.roots = append(m.roots, uint16(len(m.rules)))
	m.rules = append(m.rules, r)
	m.held = append(m.held, a)
}

func (m *Matcher) AnchorAll(list []Anchor) {
	for _, a := range list {
		m.Add(a)
	}
}

// Root returns the state of the workspace itself.
func (m *Matcher) Root(start []Place) int32 {
	set := slices.Clone(start)
	for _, r := range m.roots {
		set = append(set, Place{r, 0})
	}
	return m.Number(set)
}

// Rests returns the anchors by which names that have begun go on from a path.
func (m *Matcher) Rests(state int32, path string) []Anchor {
	var out []Anchor
	for _, p := range m.sets[state] {
		a := Anchor{path, int(p.Rule), int(p.Seg)}
		if i := slices.Index(m.roots, p.Rule); i >= 0 { // the rule begins at an anchor and leads on from there
			of := m.held[i]
			over := int(p.Seg) - strings.Count(of.Path, "/") - 1
			if over < 0 || of.Rule < 0 {
				continue
			}
			a.Rule, a.Seg = of.Rule, of.Seg+over
		}
		out = append(out, a)
	}
	return out
}
