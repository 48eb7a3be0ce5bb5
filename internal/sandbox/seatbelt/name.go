package seatbelt

import (
	"strings"

	"palyra"
	"palyra/internal/seal"
)

// modules is the directory below which only git's names count.
const modules = "node_modules"

// parseNames reads sealed names, in the grammar of package seal. It refuses names with other characters than plain
// printable ones: no expression can cover everything that the file system takes for equal to them.
func parseNames(names []string) (*seal.Matcher, error) {
	m, err := seal.Compile(names) // first, because it has limits
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if why := notPlain(n); why != "" {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonBadProfile, "the sealed name %q %s", n, why).
				WithRemedy("on macOS a sealed name has plain printable characters only: .envrc, .github/workflows, *.code-workspace or .git/")
		}
	}
	return m, nil
}

// notPlain returns why a name cannot be written as an expression.
func notPlain(name string) string {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "has a character that is not plain"
		}
	}
	for p := range strings.SplitSeq(name, "/") {
		if strings.HasSuffix(p, ".") || strings.HasSuffix(p, " ") {
			return "has a part that ends in a dot or a blank"
		}
	}
	return ""
}

// everywhere reports whether the rule's expression must count below node_modules as well: for git,
// and where that directory itself is sealed.
func everywhere(r seal.Rule) bool {
	return r.Every || r.Parts[len(r.Parts)-1].Fits(modules)
}
