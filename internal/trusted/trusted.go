// Package trusted knows the files of a project that other programs take orders from without being asked to: what
// git, shells, editors, hook managers, package managers, CI systems and agents read and obey as soon as somebody
// works in the directory. What an agent writes there runs later, with the rights of whoever comes by.
//
// It is knowledge and nothing else, in names.txt: the one list that a sandbox seals by and that
// policy guards by. Each group names the programs that obey it, where they say so,
// and how that is known; docs/trusted-names.md is made from it.
//
// The rule for a name is what runs it. What an act runs that asks for nothing of the kind (entering a directory,
// git status, a commit, opening an editor, starting an agent or a debugger, a push) is held. So is what makes a
// program that people call run another one, or send their credentials elsewhere, before it looks at the project.
// Where ordinary work has to write such a file it is noted, and where only many files together command anything it
// is asked about. What people run knowingly, as the project's own code, is not here: Makefile and what it includes,
// package.json, build.rs, Rakefile, gradlew, conftest.py, the configuration of bundlers, linters, formatters and
// test runners, lock files.
package trusted

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
	// only a tool's write by this name is asked about: runs make such files in plenty, and none of them commands anything alone
	Asked
)

// Name is one name of the list. It fits a path whose last parts are its own, at any depth; a star stands for any
// characters of a part, "**" for any number of directories, Repository for a directory that git takes for a
// repository. One that ends in a slash is a directory whose content may change, while it may neither appear nor go.
type Name struct {
	Name     string
	Category Category
	Care     Care
	By       string // the programs that obey it
	Source   string // where that is documented
	Basis    Basis  // how it is known
	Tried    string // what was looked at in vain
}

// Basis is how a name came to be on the list.
type Basis string

// The bases.
const (
	Read   Basis = "documentation"         // the source, or the program's own text, says so
	Seen   Basis = "seen in use"           // others who work with the program say so, at the source or elsewhere
	Sought Basis = "looked for, not found" // common knowledge: the source is where it should stand
)

// Repository stands for a directory that git takes for a repository of its own.
const Repository = "<repository>"

// With are the names that get one kind of care, in the order of the list.
func With(c Care) []string {
	var out []string
	for _, n := range list() {
		if n.Care == c {
			out = append(out, n.Name)
		}
	}
	return out
}
