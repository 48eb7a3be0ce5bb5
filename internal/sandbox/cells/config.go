package cells

import (
	"log/slog"

	"palyra"
)

// Cgroup modes; anything else is a cgroup v2 directory to work in.
const (
	CgroupAuto = "auto" // use what the host permits; otherwise count and kill
	CgroupOff  = "off"  // never make any
)

// Config is what a Fleet needs.
type Config struct {
	Tier    palyra.Tier  // whose cells they are
	Cell    string       // path of palyra-cell
	Digest  string       // SHA-256 it must have, in hex, stamped into the daemon at build
	Cgroup  string       // auto, off, or a directory; empty is auto
	StateID string       // of the daemon's state: names cgroups and marks processes
	Kind    string       // keeps tiers of one state apart, or empty
	Inside  bool         // cells live in namespaces that end with them, and in their own cgroups
	Log     *slog.Logger // nil: no log
}
