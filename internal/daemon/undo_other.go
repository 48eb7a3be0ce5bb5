//go:build !linux

package daemon

import (
	"palyra/internal/tiers"
	"palyra/internal/undo"
)

// keptBy is what runs replaced: on this system nothing is remembered.
func keptBy(*tiers.Tiers) *undo.Kept { return nil }
