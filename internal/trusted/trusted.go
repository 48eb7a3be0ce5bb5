// Package trusted knows the files of a project that other programs take orders
// from without being asked to: what git, shells, editors, hook managers, package
// managers, CI systems and agents read and obey as soon as somebody works in the
// directory. What an agent writes there runs later, with the rights of whoever
// comes by.
//
// It is knowledge and nothing else: the one list that a sandbox seals by and that
// policy guards by. Each group names the programs that obey it and where they say
// so. What people run by hand, and ordinary work has to write, is not here:
// Makefile, package.json, build.rs, conftest.py, lock files.
package trusted

import "slices"

// Category is what kind of program obeys a file.
type Category string

// The categories.
const (
	VersionControl Category = "version control"
	Shell          Category = "shell and environment"
	Packages       Category = "package manager and toolchain"
	Editor         Category = "editor"
	Hooks          Category = "hook manager"
	CI             Category = "continuous integration"
	Agent          Category = "agent"
	Credentials    Category = "credentials"
	Own            Category = "Palyra"
)

// Care is what a sandbox does about a name. Policy guards all of them.
type Care uint8

// The ways to care.
const (
	Held  Care = iota // a run may not change it, and what it makes anew is taken away
	Noted             // ordinary work writes it: the run may, and the outcome says so
	Asked             // only a tool's write by this name is asked about: runs make such files in plenty, and none of them commands anything alone
)

// Name is one name of the list. It fits a path whose last parts are its own, at
// any depth; a star stands for any characters of a part, "**" for any number of
// directories, Repository for a directory that git takes for a repository. One
// that ends in a slash is a directory whose content may change, while it may
// neither appear nor go.
type Name struct {
	Name     string
	Category Category
	Care     Care
	By       string // the programs that obey it
	Source   string // where that is documented
}

// Repository stands for a directory that git takes for a repository of its own.
const Repository = "<repository>"

// Names is the whole list.
func Names() []Name {
	var out []Name
	for _, g := range slices.Concat(versionControl(), environment, toolchains, editors, hooks, services, agents, instructions, rest) {
		for _, n := range g.names {
			out = append(out, Name{Name: n, Category: g.category, Care: g.care, By: g.by, Source: g.source})
		}
	}
	return out
}

// With are the names that get one kind of care, in the order of the list.
func With(c Care) []string {
	var out []string
	for _, n := range Names() {
		if n.Care == c {
			out = append(out, n.Name)
		}
	}
	return out
}

// group are names that the same programs obey.
type group struct {
	category   Category
	care       Care
	by, source string
	names      []string
}
