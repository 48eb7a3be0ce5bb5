// Package sealname says which paths are sealed, by their names.
//
// Words: a name is a path, at any depth, with stars (see Compile for the grammar); a matcher is all names at once; a
// state is the names that have begun on the way to a directory, by number; a spot is a state with what else counts
// there; an anchor is a place in a workspace to which a sealed path leads.
//
// It looks at no file: who walks says what it finds, a name at a time.
package sealname

import (
	"encoding/binary"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/trusted"
)

const repository = trusted.Repository

// The limits of a list of names.
const (
	maxNames = 1_024
	maxName  = 1_024
	maxSegs  = 32
)

// Matcher decides which paths a list of names seals. It is for one goroutine at a time.
type Matcher struct {
	names []string
	rules []rule
	first map[string][]uint16 // rules by their first segment, where that is plain
	globs *[2][256][]uint16   // rules whose first segment has a star: by its first byte, or by its last; 0 where that is a star too
	repos []uint16            // rules whose first segment is a repository
	roots []uint16            // rules that begin at the workspace only, one for each anchor
	held  []Anchor
	sets  [][]Place // by number; the first is empty
	known map[string]int32
}

type rule struct {
	segs  []segment
	keep  bool // a directory of the name may be written in
	every bool // holds below node_modules as well
}

// segment is one part of a name between slashes: pieces between its stars.
type segment struct {
	any    bool // "**"
	pieces []string
}

// Place is the state of one rule: seg is the segment to match next.
type Place struct {
	Rule uint16 `json:"rule"`
	Seg  uint16 `json:"part"`
}

// Hit is what the names make of a path.
type Hit uint8

const (
	Free Hit = iota
	Keep     // kept, if it is a directory; sealed otherwise
	Full     // sealed
)

// Compile reads names. A name is one or more segments with slashes between; it fits a path whose last segments are
// these, however deep. In a segment a star stands for any characters; the segment "**" stands for any number of
// directories, though not for refs, logs and objects of a repository. The first segment may be "<repository>": a
// directory that has HEAD, objects and refs, or HEAD and commondir. A name that ends in a slash keeps a directory
// instead of sealing it: it stays and may be written in, no new one may appear, and anything else of the name is
// sealed. Below a directory node_modules only names count whose first segment is .git or <repository>. Upper and
// lower case are the same.
func Compile(names []string) (*Matcher, error) {
	if len(names) > maxNames {
		return nil, badName("there are %d sealed names, more than %d", len(names), maxNames)
	}
	m := &Matcher{first: map[string][]uint16{}, globs: new([2][256][]uint16), sets: [][]Place{nil}, known: map[string]int32{"": 0}}
	for _, n := range names {
		r, err := parse(n)
		if err != nil {
			return nil, err
		}
		i := uint16(len(m.rules))
		m.names = append(m.names, n)
		m.rules = append(m.rules, r)
		switch first := r.segs[0]; {
		case len(first.pieces) != 1:
			m.glob(first, i)
		case first.pieces[0] == repository:
			m.repos = append(m.repos, i)
		default:
			m.first[first.pieces[0]] = append(m.first[first.pieces[0]], i)
		}
	}
	return m, nil
}

// glob indexes a rule whose first segment has a star by its first or last byte: every name of a
// workspace is looked up, and hardly any has such a byte.
func (m *Matcher) glob(s segment, i uint16) {
	head, tail := s.pieces[0], s.pieces[len(s.pieces)-1]
	list := &m.globs[1][0]
	switch {
	case head != "":
		list = &m.globs[0][head[0]]
	case tail != "":
		list = &m.globs[1][tail[len(tail)-1]]
	}
	*list = append(*list, i)
}

// near returns the rules with a star that may fit a name.
func (m *Matcher) near(name []byte) (heads, tails, all []uint16) {
	if all = m.globs[1][0]; len(name) > 0 { // a name of invisible characters only is empty after folding
		heads, tails = m.globs[0][name[0]], m.globs[1][name[len(name)-1]]
	}
	return heads, tails, all
}

func badName(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonBadProfile, format, args...).
		WithRemedy("a sealed name is like .envrc, .github/workflows, *.code-workspace or .git/")
}

func parse(name string) (rule, error) {
	if len(name) > maxName {
		return rule{}, badName("the sealed name %.40q... is longer than %d bytes", name, maxName)
	}
	text, dir := strings.CutSuffix(name, "/")
	parts := strings.Split(text, "/")
	if len(parts) > maxSegs {
		return rule{}, badName("the sealed name %.40q... has more than %d parts", name, maxSegs)
	}
	r := rule{keep: dir}
	for i, p := range parts {
		seg, why := parseSegment(p, i == 0, i == len(parts)-1)
		if why != "" {
			return rule{}, badName("the sealed name %q %s", name, why)
		}
		r.segs = append(r.segs, seg)
	}
	if len(parts) == 1 && parts[0] == repository && !dir {
		return rule{}, badName("the sealed name %q must end in a slash: a repository is kept, not sealed", name)
	}
	head := r.segs[0].pieces
	r.every = len(head) == 1 && (head[0] == ".git" || head[0] == repository)
	return r, nil
}

func parseSegment(p string, first, last bool) (segment, string) {
	if strings.ContainsRune(p, 0) {
		return segment{}, "has a zero byte"
	}
	f := string(trusted.Fold(nil, p))
	switch {
	case f == "" || f == "." || f == "..":
		return segment{}, "has a part that is empty, . or .., or has only characters that do not count"
	case f == "**" && !first && !last:
		return segment{any: true}, ""
	case strings.Contains(f, "**"):
		return segment{}, "has ** at its beginning, at its end or beside other characters"
	case f == "*" && first && last:
		return segment{}, "would seal everything"
	case f == repository && first:
		return segment{pieces: []string{f}}, ""
	case strings.ContainsAny(f, "<>"):
		return segment{}, "has < or >, which are for <repository> at the beginning"
	}
	return segment{pieces: strings.Split(f, "*")}, ""
}

// fits reports whether a folded name matches the segment.
func (s segment) fits(name []byte) bool {
	if len(s.pieces) == 1 {
		return string(name) == s.pieces[0]
	}
	rest := string(name)
	head, tail := s.pieces[0], s.pieces[len(s.pieces)-1]
	if len(rest) < len(head)+len(tail) || !strings.HasPrefix(rest, head) || !strings.HasSuffix(rest, tail) {
		return false
	}
	rest = rest[len(head) : len(rest)-len(tail)]
	for _, p := range s.pieces[1 : len(s.pieces)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return true
}

// Next follows the rules from a directory's state to an entry in it. The name is folded. below means that the
// directory is below node_modules. The returned state is that of the entry, should it be a directory.
func (m *Matcher) Next(state int32, name []byte, below bool) (Hit, int32) {
	starts := m.first[string(name)]
	heads, tails, all := m.near(name)
	if state == 0 && len(starts)+len(heads)+len(tails)+len(all) == 0 {
		return Free, 0
	}
	var found Hit
	var next []Place
	take := func(r, seg uint16) { found, next = m.advance(found, next, Place{r, seg}) }
	for _, r := range starts {
		if !below || m.rules[r].every {
			take(r, 1)
		}
	}
	for _, globs := range [...][]uint16{heads, tails, all} {
		for _, r := range globs {
			if !below && m.rules[r].segs[0].fits(name) {
				take(r, 1)
			}
		}
	}
	for _, p := range m.sets[state] {
		switch seg := m.rules[p.Rule].segs[p.Seg]; {
		case below && !m.rules[p.Rule].every:
		case seg.any:
			take(p.Rule, p.Seg)
		case seg.fits(name):
			take(p.Rule, p.Seg+1)
		}
	}
	return found, m.Number(next)
}

// advance notes that a rule has come to a place: its end, or a segment. Two stars can also stand
// for no directory at all.
func (m *Matcher) advance(found Hit, set []Place, p Place) (Hit, []Place) {
	r := m.rules[p.Rule]
	if int(p.Seg) == len(r.segs) {
		if !r.keep {
			return Full, set
		}
		return max(found, Keep), set
	}
	set = append(set, p)
	if r.segs[p.Seg].any { // two stars are never the last segment
		return m.advance(found, set, Place{p.Rule, p.Seg + 1})
	}
	return found, set
}

// Into adds the rules that begin at a repository, and reports whether repositories as such are kept.
func (m *Matcher) Into(state int32) (int32, bool) {
	set, whole := slices.Clone(m.sets[state]), Free
	for _, r := range m.repos {
		whole, set = m.advance(whole, set, Place{r, 1})
	}
	return m.Number(set), whole != Free
}

// Stored drops the rules that wait behind two stars: below refs, logs and objects of a repository
// names are those of branches.
func (m *Matcher) Stored(state int32) int32 {
	var set []Place
	for _, p := range m.sets[state] {
		segs := m.rules[p.Rule].segs
		if !segs[p.Seg].any && !segs[p.Seg-1].any {
			set = append(set, p)
		}
	}
	return m.Number(set)
}

// InStore reports whether a repository keeps its own data under the name.
func InStore(name []byte) bool {
	switch string(name) {
	case "refs", "logs", "objects":
		return true
	}
	return false
}

// Number gives equal sets equal numbers.
func (m *Matcher) Number(set []Place) int32 {
	if len(set) == 0 {
		return 0
	}
	slices.SortFunc(set, func(a, b Place) int {
		return (int(a.Rule)-int(b.Rule))<<16 + int(a.Seg) - int(b.Seg)
	})
	set = slices.Compact(set)
	key := make([]byte, 0, 4*len(set))
	for _, p := range set {
		key = binary.BigEndian.AppendUint16(key, p.Rule)
		key = binary.BigEndian.AppendUint16(key, p.Seg)
	}
	n, ok := m.known[string(key)]
	if !ok {
		n = int32(len(m.sets))
		m.sets = append(m.sets, set)
		m.known[string(key)] = n
	}
	return n
}
