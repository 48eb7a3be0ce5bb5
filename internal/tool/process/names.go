package process

import (
	"path"
	"slices"
	"strings"
)

// rulesFor finds the rows for a program by all its names, without the same one
// twice. same are the names of interpreters of the system that are the same file:
// a system's own file of many programs is the one that the first name says.
func rulesFor(names, same []string) []*rule {
	for _, n := range same {
		if r := ruleFor(n); r != nil && r.applets {
			names, same = names[:1], nil
			break
		}
	}
	var found []*rule
	for _, n := range slices.Concat(names, same) {
		if r := ruleFor(n); r != nil && !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	return found
}

// ruleFor finds the row for one name, as it is or without a version; nil: none.
func ruleFor(name string) *rule {
	base := path.Base(name)
	if r := byName[base]; r != nil {
		return r
	}
	return byName[strings.TrimRight(base, "0123456789.-")]
}

// byName has the rows by each of their names.
var byName = func() map[string]*rule {
	m := map[string]*rule{}
	for i := range rules {
		for name := range strings.FieldsSeq(rules[i].names) {
			m[name] = &rules[i]
		}
	}
	return m
}()
