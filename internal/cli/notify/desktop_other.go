//go:build !linux

package notify

import (
	"context"

	"palyra"
)

// Desktop tells on the desktop.
type Desktop struct{}

// Tell implements Way.
func (Desktop) Tell(context.Context, Notice) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "notices on the desktop are for Linux").
		WithRemedy("use --notify with a command of your system that shows them")
}
