package files

import (
	"path"
	"strings"

	"palyra"
)

// glob is a pattern for paths: * and ? within a name, [a-z] classes, ** for any number of
// directories. Without a slash it matches the last name of a path.
type glob struct {
	parts []string
	base  bool
}

func newGlob(pattern string) (glob, error) {
	g := glob{parts: strings.Split(strings.TrimPrefix(pattern, "./"), "/"), base: !strings.Contains(pattern, "/")}
	for _, part := range g.parts {
		if _, err := path.Match(part, ""); err != nil {
			return glob{}, palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "argument \"glob\" is not a pattern").
				WithRemedy("use *, ?, [a-z] and ** between slashes, for example src/**/*.go").WithCause(err)
		}
	}
	return g, nil
}

// match goes back to the last ** only, which is enough and takes at most len(pattern) × len(path)
// steps for any pattern.
func (g glob) match(rel string) bool {
	if g.base {
		ok, _ := path.Match(g.parts[0], path.Base(rel))
		return ok
	}
	names := strings.Split(rel, "/")
	star, from := -1, 0
	p, n := 0, 0
	for n < len(names) {
		switch {
		case p < len(g.parts) && g.parts[p] == "**":
			star, from = p, n
			p++
			continue
		case p < len(g.parts):
			if ok, _ := path.Match(g.parts[p], names[n]); ok {
				p, n = p+1, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star+1, from
	}
	for p < len(g.parts) && g.parts[p] == "**" {
		p++
	}
	return p == len(g.parts)
}
