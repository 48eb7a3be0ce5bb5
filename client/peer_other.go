//go:build !linux

package client

import (
	"context"

	"palyra"
)

// DaemonPID cannot be found out on this system; only the daemon's own statement tells it.
func (c *Client) DaemonPID(context.Context) (int, error) {
	return 0, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "this system does not say whose a socket is")
}
