package daemon

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/rpc"
)

// insiders answers runs that are agents themselves: on sockets of their own, at
// which they can do what agents can, as far as their room reaches.
type insiders struct {
	server atomic.Pointer[rpc.Server]
	local  func(context.Context) (palyra.Agent, error)
}

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
	room, err := i.room(c, uid)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return server.ServeAgent(l, room), nil
}

// room is what a call gives to the agent that it is. What a person runs by their own
// command is not the person's command: inside it is the agent without a name.
func (i *insiders) room(c *palyra.Call, uid int64) (rpc.AgentSocket, error) {
	p := c.Proposal
	r := rpc.AgentSocket{
		Call: c.ID, UID: uid, Agent: palyra.Agent{Principal: p.Principal, Owner: p.Owner}, Line: append(slices.Clone(p.Line), c.ID),
		Origin: cmp.Or(p.Origin, p.Principal), Scopes: p.Scopes, Within: append([]string{c.Plan.Workspace.Path}, c.Plan.AgentWithin...),
	}
	if slices.Contains(c.Plan.AgentWithin, palyra.AnyWorkspace) {
		r.Within = p.Within
	}
	if len(r.Line) > maxRooms {
		return r, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "more than %d rooms within one another", maxRooms)
	}
	if !palyra.IsCommandAgent(p.Principal) {
		return r, nil
	}
	var err error
	r.Agent, err = i.local(context.Background())
	return r, err
}

// maxRooms bounds how many rooms are in one another.
const maxRooms = 16

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
	return []palyra.Mount{{Source: command, Target: cell.RoomPalyra + "/bin/palyra"}}
}
