package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/sandbox"
)

// insiders answers runs that are agents themselves: on sockets of their own, at
// which they are whoever made the call and can do what agents can.
type insiders struct{ server atomic.Pointer[rpc.Server] }

// Serve implements sandbox.Agents.
func (i *insiders) Serve(c *palyra.Call, uid int64, socket *os.File) (stop func(), err error) {
	defer func() { _ = socket.Close() }()
	server := i.server.Load()
	if server == nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon does not serve yet").WithRemedy("propose the call again")
	}
	l, err := net.FileListener(socket)
	if err != nil {
		return nil, err
	}
	unix, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.New("daemon: an agent's door is not a unix socket"), l.Close())
	}
	unix.SetUnlinkOnClose(false) // its path is the room's, not ours
	return server.ServeAgent(l, c.ID, palyra.Agent{Principal: c.Proposal.Principal, Owner: c.Proposal.Owner}, uid, c.Proposal.Within), nil
}

// agentTools are the programs that an agent in a room finds: the command that
// speaks to Palyra, as far as it lies beside the daemon.
func agentTools() []palyra.Mount {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	command := filepath.Join(filepath.Dir(self), "palyra")
	if fi, err := os.Stat(command); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	return []palyra.Mount{{Source: command, Target: sandbox.RoomPalyra + "/bin/palyra"}}
}
