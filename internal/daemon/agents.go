package daemon

import (
	"os"

	"palyra"
)

// insiders answers runs that are agents themselves: on sockets of their own, at
// which they can do what agents can, as far as their room reaches.
type insiders struct{ d *Daemon }

// Serve implements sandbox.Agents.
func (i insiders) Serve(c *palyra.Call, uid int64, socket *os.File) (stop func(), err error) {
	server := i.d.server.Load()
	if server == nil {
		_ = socket.Close()
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon does not serve yet").WithRemedy("propose the call again")
	}
	return server.ServeCall(c, uid, socket)
}
