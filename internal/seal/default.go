package seal

import "palyra/internal/trusted"

// ownDir is Palyra's directory in a workspace; penDir in it has what was moved
// away, and is not looked at.
const (
	ownDir = ".palyra"
	penDir = "quarantine"
)

// repository stands for a directory that git takes for a repository of its own.
const repository = trusted.Repository

// Default are the names that are sealed unless a profile says otherwise: those of
// the files that other programs take orders from.
var Default = trusted.With(trusted.Held)
