package bubble

import (
	"log/slog"
	"time"

	"palyra/internal/sandbox/local"
)

// executor is the backend's name in attestations.
const executor = "sandbox_tier_c_linux_bubblewrap"

// Config is what a Backend needs.
type Config struct {
	Bwrap         string        // path of bubblewrap; empty: /usr/bin/bwrap
	Cell          string        // path of palyra-cell
	Digest        string        // SHA-256 it must have, in hex, stamped into the daemon at build
	Cgroup        string        // auto, off, or a directory; empty is auto
	Warm          int           // idle cells kept ready, at most
	WarmBytes     int64         // memory they may take together, about; 0: a default
	StateID       string        // of the daemon's state: names cgroups and marks processes
	Dir           string        // the backend's own directory for records of runs under way; made here
	Quarantine    string        // where sealed paths that runs made are moved to; made here
	Kept          int64         // most bytes there in all; 0: no limit
	KeptWorkspace int64         // most bytes there of one workspace, and so of one item; 0: no limit
	Closed        []string      // further directories that runs write, such as caches: no link in a workspace may lead there
	Stages        string        // directory of stages; empty: no run can be staged
	Undo          string        // where replaced files are kept, on the file system of Stages; empty: nowhere
	StageBytes    int64         // most bytes of a run's stage; 0: a default
	StageNames    int           // most names on it; 0: a default
	AllStages     int64         // most bytes of all stages, held ones included; 0: a default
	Tmp           int64         // bytes of a room's /tmp, and again of its home; 0: a default
	Patrol        time.Duration // how often a room that lives for long is swept; 0: a default
	Places        *local.Places // places of the system that no run may see, shared with other backends; nil: its own
	Log           *slog.Logger  // nil: no log
}

const (
	defaultTmp       = 1 << 30
	defaultWarmBytes = 256 << 20
)

// closed returns the directories to which no link in a workspace may lead.
func (c Config) closed() []string {
	dirs := append([]string{c.Dir, c.Quarantine}, c.Closed...)
	if c.Stages != "" {
		dirs = append(dirs, c.Stages)
	}
	return dirs
}

// kept is the most bytes of one workspace in quarantine.
func (c Config) kept() int64 {
	if c.KeptWorkspace <= 0 || c.Kept > 0 && c.Kept < c.KeptWorkspace {
		return c.Kept
	}
	return c.KeptWorkspace
}
