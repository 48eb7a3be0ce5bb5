package seal

import "palyra/internal/trusted"

// ownDir is Palyra's directory in a workspace; penDir in it has what was moved
// away, and is not looked at.
const (
	ownDir         = ".palyra"
	quarantineName = "quarantine"
)

// repository stands for a directory that git takes for a repository of its own.
const repository = trusted.Repository

// heeded are the names, of one part and folded, of files that other programs or
// agents heed and that ordinary work writes: a run's change is told.
var heeded = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range trusted.With(trusted.Noted) {
		m[string(trusted.Fold(nil, n))] = true // one of several parts fits no name
	}
	return m
}()

// Default are the names that are sealed unless a profile says otherwise: those of
// the files that other programs take orders from.
var Default = trusted.With(trusted.Held)
