//go:build !unix

package rpc

import (
	"net"

	"palyra"
)

// listen refuses: without owners and modes a door would be open to anybody.
func listen(string) (net.Listener, error) {
	return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "local sockets are not supported on this system")
}
