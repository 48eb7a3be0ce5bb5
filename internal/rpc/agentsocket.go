package rpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"palyra"
)

// AgentSocket is the door of a run that is an agent itself, and the rights that it gives to callers.
type AgentSocket struct {
	Call   palyra.CallID       // the run's
	Agent  palyra.Agent        // principal of every caller
	UID    int64               // and must be this user
	Line   []palyra.CallID     // the running calls that are around it, outermost first; the last is Call
	Origin palyra.Principal    // who proposed the outermost
	Within []string            // the only workspaces it reaches; empty: all
	Scopes []palyra.Permission // the permissions of the credential that proposed the call; nil: those of an agent
}

// ServeAgent opens one more agent door: on a socket that exists only inside one run's sandbox. A caller there
// passes the same chain as on the agent socket, brings no token, and starts no runs, which would outlive it.
// It reaches calls that came out of the room and nothing else. stop closes the door with every request on it,
// and is called at the latest when the server stops.
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
