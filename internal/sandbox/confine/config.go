package confine

import (
	"log/slog"

	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/local"
)

// executor is the backend's name in attestations.
const executor = "sandbox_tier_b"

// Cgroup modes; anything else is a cgroup v2 directory to work in.
const (
	CgroupAuto = cells.CgroupAuto // use what the host permits; otherwise count and kill
	CgroupOff  = cells.CgroupOff  // never make any
)

// Config is what a Backend needs.
type Config struct {
	Cell    string        // path of palyra-cell
	Digest  string        // SHA-256 it must have, in hex, stamped into the daemon at build
	Cgroup  string        // auto, off, or a directory; empty is auto
	Warm    int           // idle cells kept ready
	StateID string        // of the daemon's state: names cgroups and marks processes
	Places  *local.Places // places of the system that no run may see, shared with other backends; nil: its own
	Log     *slog.Logger  // nil: no log
}
