package rpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"palyra"
)

// AgentSocket is of a run that is an agent itself, and what its own door gives to whoever
// comes in by it.
type AgentSocket struct {
	Call   palyra.CallID       // the run's
	Agent  palyra.Agent        // whoever comes in is this one
	UID    int64               // and must be this user
	Line   []palyra.CallID     // the running calls that are around it, outermost first; the last is Call
	Origin palyra.Principal    // who proposed the outermost
	Within []string            // the only workspaces it reaches; empty: all
	Scopes []palyra.Permission // the permissions of what the call was proposed with; nil: those of an agent
}

// ServeAgent opens one more agent door: on a socket that exists only inside one
// run's sandbox. Whoever comes in by it passes the same chain as on the agent socket,
// brings no token, and starts no runs, which would outlive it. It reaches what came
// out of the room and nothing else. stop closes the door with every request on it, and
// is called at the latest when the server stops.
func (s *Server) ServeAgent(l net.Listener, r AgentSocket) (stop func()) {
	d := &door{name: "room", agent: true, room: &r, uid: r.UID, listener: l}
	d.prepare(s.chain, s, s.bodies)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Warn("a run's own door is closed", "err", err)
		}
	}()
	var once sync.Once
	end := func() {
		once.Do(func() {
			_ = d.close() // what is cut off is the run's own
			<-ended
		})
	}
	quit := context.AfterFunc(s.stopping, end)
	return func() {
		quit()
		end()
	}
}
