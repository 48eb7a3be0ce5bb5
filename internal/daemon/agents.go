package daemon

import (
	"os"

	"palyra"
)

// insiders serves the runs that are agents themselves: on sockets of their own, with the permissions of
// agents, in the reach of their room.
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
