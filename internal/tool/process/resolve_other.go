//go:build !linux

package process

import (
	"context"

	"palyra"
)

// resolve refuses: no tier runs programs on this system yet.
func (d *Driver) resolve(context.Context, string, arguments, []string, *palyra.Plan) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "programs are not run on this system yet").
		WithRemedy("run palyrad on Linux")
}
