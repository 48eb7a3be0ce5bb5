//go:build !linux

package daemon

import (
	"palyra/internal/tiers"
	"palyra/internal/undo"
)

// openKept opens nothing: on this system nothing is remembered.
func (*Daemon) openKept(*tiers.Tiers) *undo.Kept { return nil }
