//go:build !linux

package daemon

import "palyra/internal/undo"

// openKept opens nothing: on this system nothing is remembered.
func (*Daemon) openKept() *undo.Kept { return nil }
