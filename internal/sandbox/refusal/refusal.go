// Package refusal has the refusals that the tiers on cells share: of a whole tier, and of one run.
package refusal

import "palyra"

// CellRemedy is the remedy for a cell that was not built with the daemon.
const CellRemedy = "build and install palyrad and palyra-cell together: make build"

// Unavailable is the refusal of a whole tier that can be mended.
func Unavailable(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, format, args...)
}

// Unsupported is the refusal of a whole tier that this system cannot have.
func Unsupported(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, format, args...)
}

// SpawnFailed is the error of one run that could not be started.
func SpawnFailed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, format, args...).WithRemedy("see the daemon's log")
}
