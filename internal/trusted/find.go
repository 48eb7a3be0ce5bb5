package trusted

import (
	"path"
	"strings"
	"sync"
)

// rule is a name, read.
type rule struct {
	name  Name
	parts []string // folded
	deep  bool     // everything below it counts as well
}

// byFirst are the rules of the list by their first parts.
var byFirst = sync.OnceValue(func() map[string][]rule { return index(compile(list())) })

func compile(names []Name) []rule {
	var out []rule
	for _, n := range names {
		if strings.HasPrefix(n.Name, Repository+"/") {
			continue // no name tells; what makes a directory one is on the list itself
		}
		text, dir := strings.CutSuffix(n.Name, "/")
		r := rule{name: n, deep: dir || n.Care == Held}
		for p := range strings.SplitSeq(text, "/") {
			r.parts = append(r.parts, string(Fold(nil, p)))
		}
		out = append(out, r)
	}
	return out
}

// index finds rules by their first part; those with a star in it are under "*".
func index(rules []rule) map[string][]rule {
	m := map[string][]rule{}
	for _, r := range rules {
		key := r.parts[0]
		if strings.Contains(key, "*") {
			key = "*"
		}
		m[key] = append(m[key], r)
	}
	return m
}

// Write finds the name that a file is trusted by which is to be written at a path: it is that file, lies below such
// a directory, or stands where a directory would that has such a file in it. Names are compared as any file system
// may read them: without regard to case, trailing dots and blanks, stream suffixes and characters that do not show.
func Write(p string) (Name, bool) { return find(p, true) }

// Within finds the name of which a directory is a part, at the end of a path or before it.
func Within(dir string) (Name, bool) { return find(dir, false) }

func find(p string, file bool) (Name, bool) {
	var parts []string
	for part := range strings.SplitSeq(path.Clean(strings.ReplaceAll(p, `\`, "/")), "/") {
		part, _, _ = strings.Cut(part, ":")
		parts = append(parts, string(Fold(nil, part)))
	}
	first := byFirst()
	for i := range parts {
		for _, list := range [...][]rule{first[parts[i]], first["*"]} {
			for _, r := range list {
				if r.fits(parts[i:], file) {
					return r.name, true
				}
			}
		}
	}
	return Name{}, false
}

// fits compares a path, from where the name should begin.
func (r rule) fits(parts []string, file bool) bool {
	segs := r.parts
	for {
		switch {
		case len(segs) == 0:
			return r.deep || file && len(parts) == 0
		case len(parts) == 0:
			return file && r.name.Care == Held && len(segs) < len(r.parts)
		case segs[0] == "**":
			rest := rule{r.name, segs[1:], r.deep}
			for i := range parts {
				if rest.fits(parts[i:], false) {
					return true
				}
			}
			return false
		}
		if ok, err := path.Match(segs[0], parts[0]); err != nil || !ok {
			return false
		}
		segs, parts = segs[1:], parts[1:]
	}
}
