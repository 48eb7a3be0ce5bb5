package seal

import (
	"slices"
	"strings"

	"palyra/internal/trusted"
)

// anchor is a path of the workspace that must stay because something sealed leads there: a link in
// the place of a sealed file or directory, or git's own configuration. The remaining segments of
// the name are matched from there.
type anchor struct {
	path string
	rule int // index of the name, whose segments from seg on must still match; -1: the path itself is sealed
	seg  int
}

// maxAnchors is the most anchors of one workspace.
const maxAnchors = 512

// add makes an anchor a rule. It leaves out an anchor whose path would be the workspace itself.
func (m *Matcher) add(a anchor) {
	if a.path == "" || slices.Contains(m.held, a) {
		return
	}
	r := rule{every: true}
	for part := range strings.SplitSeq(a.path, "/") {
		r.segs = append(r.segs, segment{pieces: []string{string(trusted.Fold(nil, part))}})
	}
	if a.rule >= 0 {
		r.keep = m.rules[a.rule].keep
		r.segs = append(r.segs, m.rules[a.rule].segs[a.seg:]...)
	}
	m.roots = append(m.roots, uint16(len(m.rules)))
	m.rules = append(m.rules, r)
	m.held = append(m.held, a)
}

func (m *Matcher) anchorAll(list []anchor) {
	for _, a := range list {
		m.add(a)
	}
}

// root returns the state of the workspace itself.
func (m *Matcher) root(start []place) int32 {
	set := slices.Clone(start)
	for _, r := range m.roots {
		set = append(set, place{r, 0})
	}
	return m.number(set)
}

// rests returns the anchors by which names that have begun go on from a path.
func (m *Matcher) rests(state int32, path string) []anchor {
	var out []anchor
	for _, p := range m.sets[state] {
		a := anchor{path, int(p.Rule), int(p.Seg)}
		if i := slices.Index(m.roots, p.Rule); i >= 0 { // the rule begins at an anchor and leads on from there
			of := m.held[i]
			over := int(p.Seg) - strings.Count(of.path, "/") - 1
			if over < 0 || of.rule < 0 {
				continue
			}
			a.rule, a.seg = of.rule, of.seg+over
		}
		out = append(out, a)
	}
	return out
}
