package screen

import (
	"net"
	"strconv"

	"palyra"
)

// Endpoint is where a flow went: a lookup has no port.
func Endpoint(f palyra.EgressFlow) string {
	if f.Port == 0 {
		return f.Host
	}
	return net.JoinHostPort(f.Host, strconv.Itoa(f.Port))
}
