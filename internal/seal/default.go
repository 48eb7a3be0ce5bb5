package seal

import (
	"palyra/internal/seal/sealname"
	"palyra/internal/trusted"
)

// ownDir is Palyra's directory in a workspace; quarantineName in it is the quarantine, which walks pass over.
const (
	ownDir         = ".palyra"
	quarantineName = "quarantine"
)

// heeded are the names, of one segment and folded, of files that other programs or agents heed and
// that ordinary work writes: a run's change is reported.
var heeded = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range trusted.With(trusted.Noted) {
		m[string(trusted.Fold(nil, n))] = true // a name of several segments fits no file name
	}
	return m
}()

// Default are the names that are sealed unless a profile says otherwise: files that other programs
// take orders from.
var Default = trusted.With(trusted.Held)

// What the names of sealed paths come to.
type (
	Matcher = sealname.Matcher
	Rule    = sealname.Rule
	Part    = sealname.Part
	Spot    = sealname.Spot
)

// Compile reads names.
func Compile(names []string) (*Matcher, error) { return sealname.Compile(names) }

// Fold is a name as names are compared.
func Fold(name string) string { return sealname.Fold(name) }
