package rpc

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"slices"

	"palyra"
	"palyra/internal/commandagent"
)

// ServeCall opens the door of a call whose program is an agent itself: on a listening unix socket in its room, by which
// the user uid comes in.
func (s *Server) ServeCall(c *palyra.Call, uid int64, socket *os.File) (stop func(), err error) {
	defer func() { _ = socket.Close() }()
	l, err := net.FileListener(socket)
	if err != nil {
		return nil, err
	}
	unix, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.New("rpc: an agent's door is not a unix socket"), l.Close())
	}
	unix.SetUnlinkOnClose(false) // its path is the room's, not ours
	room, err := s.roomOf(c, uid)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s.ServeAgent(l, room), nil
}

// roomOf is the caller that a call's own agent becomes. A program that a person runs by their own command
// does not act as that person: inside it is the agent without a name.
func (s *Server) roomOf(c *palyra.Call, uid int64) (AgentSocket, error) {
	p := c.Proposal
	r := AgentSocket{
		Call: c.ID, UID: uid, Agent: palyra.Agent{Principal: p.Principal, Owner: p.Owner}, Line: append(slices.Clone(p.Line), c.ID),
		Origin: cmp.Or(p.Origin, p.Principal), Scopes: p.Scopes, Within: append([]string{c.Plan.Workspace.Path}, c.Plan.AgentWithin...),
	}
	if slices.Contains(c.Plan.AgentWithin, palyra.AnyWorkspace) {
		r.Within = p.Within
	}
	if len(r.Line) > maxRooms {
		return r, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "more than %d rooms within one another", maxRooms)
	}
	if !commandagent.Is(p.Principal) {
		return r, nil
	}
	var err error
	r.Agent, err = s.Agents.LocalAgent(context.Background())
	return r, err
}

// maxRooms bounds how many rooms are in one another.
const maxRooms = 16
