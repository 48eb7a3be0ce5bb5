package rpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"palyra"
)

// ServeAgent opens one more agent door: on a socket that exists only inside one
// run's sandbox. Whoever comes in by it is the given agent, and must be the given
// user; it passes the same chain as on the agent socket, brings no token, and starts
// no runs, which would outlive it. It reaches the workspaces that the run's own call
// did (none named: all). stop closes it with every request on it, and is called at
// the latest when the server stops.
func (s *Server) ServeAgent(l net.Listener, of palyra.ID, who palyra.Agent, uid int64, within []string) (stop func()) {
	d := &door{name: "room", agent: true, bound: &who, parent: of, within: within, uid: uid, listener: l}
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
