package seatbelt

import (
	"slices"
	"strings"

	"palyra"
)

// Bounds of a list of sealed names.
const (
	maxNames = 1024
	maxName  = 1024
	maxSegs  = 32
)

// repository stands for a directory that git takes for a repository of its own.
// No expression finds one by its name; the walk does.
const repository = "<repository>"

// modules is the directory below which only git's names count.
const modules = "node_modules"

// rule is a sealed name.
type rule struct {
	segs  []segment
	keep  bool // a directory of the name may be written in
	every bool // counts below node_modules as well
}

// segment is one part of a name between slashes: pieces between its stars, in
// lower case.
type segment struct {
	any    bool // "**"
	repo   bool // "<repository>"
	pieces []string
}

// parseNames reads sealed names, in the grammar of package seal. Names with other
// characters than plain printable ones are refused: what the file system holds
// for equal to them cannot be said in an expression.
func parseNames(names []string) ([]rule, error) {
	if len(names) > maxNames {
		return nil, badName("there are %d sealed names, more than %d", len(names), maxNames)
	}
	var rules []rule
	for _, n := range names {
		r, err := parseName(n)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func badName(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonBadProfile, format, args...).
		WithRemedy("on macOS a sealed name has plain printable characters only: .envrc, .github/workflows, *.code-workspace or .git/")
}

func parseName(name string) (rule, error) {
	if len(name) > maxName {
		return rule{}, badName("the sealed name %.40q… is longer than %d bytes", name, maxName)
	}
	text, dir := strings.CutSuffix(name, "/")
	parts := strings.Split(text, "/")
	if len(parts) > maxSegs {
		return rule{}, badName("the sealed name %.40q… has more than %d parts", name, maxSegs)
	}
	r := rule{keep: dir}
	for i, p := range parts {
		s, why := parseSegment(p, i == 0, i == len(parts)-1)
		if why != "" {
			return rule{}, badName("the sealed name %q %s", name, why)
		}
		r.segs = append(r.segs, s)
	}
	first := r.segs[0]
	if first.repo && len(parts) == 1 && !dir {
		return rule{}, badName("the sealed name %q must end in a slash", name)
	}
	r.every = first.repo || (len(first.pieces) == 1 && first.pieces[0] == ".git")
	return r, nil
}

func parseSegment(p string, first, last bool) (segment, string) {
	switch {
	case p == "" || p == "." || p == "..":
		return segment{}, "has a part that is empty, . or .."
	case p == "**" && !first && !last:
		return segment{any: true}, ""
	case strings.Contains(p, "**"):
		return segment{}, "has ** at its beginning, at its end or beside other characters"
	case p == "*" && first && last:
		return segment{}, "would seal everything"
	case p == repository && first:
		return segment{repo: true}, ""
	case strings.HasSuffix(p, ".") || strings.HasSuffix(p, " "):
		return segment{}, "has a part that ends in a dot or a blank"
	}
	for i := range len(p) {
		if c := p[i]; c < ' ' || c > '~' || strings.IndexByte(`"\<>`, c) >= 0 {
			return segment{}, "has a character that is not plain"
		}
	}
	return segment{pieces: strings.Split(strings.ToLower(p), "*")}, ""
}

// fits compares with a folded name of a file.
func (s segment) fits(name string) bool {
	if s.repo {
		return false
	}
	if len(s.pieces) == 1 {
		return name == s.pieces[0]
	}
	head, tail := s.pieces[0], s.pieces[len(s.pieces)-1]
	if len(name) < len(head)+len(tail) || !strings.HasPrefix(name, head) || !strings.HasSuffix(name, tail) {
		return false
	}
	name = name[len(head) : len(name)-len(tail)]
	for _, p := range s.pieces[1 : len(s.pieces)-1] {
		_, rest, ok := strings.Cut(name, p)
		if !ok {
			return false
		}
		name = rest
	}
	return true
}

// everywhere reports whether the rule's expression has to count below
// node_modules as well: for git, and where that directory itself is sealed.
func (r rule) everywhere() bool {
	return r.every || r.segs[len(r.segs)-1].fits(modules)
}

// ends reports whether a path, in folded parts, ends in the rule's name. isRepo
// tells whether the first n parts are a repository's path.
func (r rule) ends(parts []string, isRepo func(n int) bool) bool {
	if !r.every && slices.Contains(parts[:max(0, len(parts)-1)], modules) {
		return false
	}
	return endIn(r.segs, parts, isRepo)
}

func endIn(segs []segment, parts []string, isRepo func(n int) bool) bool {
	if len(segs) == 0 {
		return true
	}
	last, n := segs[len(segs)-1], len(parts)
	switch {
	case last.repo:
		return isRepo(n)
	case last.any:
		return endIn(segs[:len(segs)-1], parts, isRepo) || (n > 0 && endIn(segs, parts[:n-1], isRepo))
	}
	return n > 0 && last.fits(parts[n-1]) && endIn(segs[:len(segs)-1], parts[:n-1], isRepo)
}
