package process

import (
	"slices"

	programs "palyra/internal/program"
)

// rulesFor finds the rows for a program by all its names, each row once. same are the names of the
// system's interpreters that are the same file: a multi-call file counts by its first name.
func rulesFor(names, same []string) []*programs.Binding {
	for _, n := range same {
		if r := ruleFor(n); r != nil && r.Applets {
			names, same = names[:1], nil
			break
		}
	}
	var found []*programs.Binding
	for _, n := range slices.Concat(names, same) {
		if r := ruleFor(n); r != nil && !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	return found
}

// ruleFor finds the row for one name; nil: the table has none.
func ruleFor(name string) *programs.Binding { return programs.Shipped().Binding(name) }
