//go:build !linux

package client

import (
	"context"

	"palyra"
)

// DaemonPID cannot be told here: the daemon's own word is all there is.
func (c *Client) DaemonPID(context.Context) (int, error) {
	return 0, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "this system does not say whose a socket is")
}
