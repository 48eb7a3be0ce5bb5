//go:build !linux

package process

import (
	"context"
	"os"

	"palyra"
)

// resolve refuses: no tier runs programs on this system yet.
func (d *Driver) resolve(context.Context, string, arguments, []string, *os.File, *palyra.Plan) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "programs are not run on this system yet").
		WithRemedy("run palyrad on Linux")
}

// resolution is nothing: nothing is found here.
type resolution struct{}
