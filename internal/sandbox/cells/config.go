package cells

import (
	"log/slog"

	"palyra"
)

// Cgroup modes; anything else is a cgroup v2 directory to work in.
const (
	CgroupAuto = "auto" // use what the host lets us make; else count and kill
	CgroupOff  = "off"  // never make any
)

// Config is what a Fleet needs.
type Config struct {
	Tier    string       // for people: "tier B"
	Cell    string       // path of palyra-cell
	Digest  string       // SHA-256 it must have, in hex, stamped into the daemon at build
	Cgroup  string       // auto, off, or a directory; empty is auto
	StateID string       // of the daemon's state: names cgroups and marks processes
	Kind    string       // keeps tiers of one state apart, or empty
	Inside  bool         // cells live in namespaces that end with them, and in their own cgroups
	Log     *slog.Logger // nil: no log
}

// CellRemedy is what to do about a cell that is not the one built with the
// daemon.
const CellRemedy = "build and install palyrad and palyra-cell together: make build"

// Unavailable is a refusal of a whole tier that can be mended.
func Unavailable(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, format, args...)
}

// Unsupported is a refusal of a whole tier that this system cannot have.
func Unsupported(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, format, args...)
}

// SpawnFailed says that one run could not be started.
func SpawnFailed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, format, args...).WithRemedy("see the daemon's log")
}
