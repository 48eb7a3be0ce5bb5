// Package publish leads to the ports that background processes publish: from the host's own loopback address, and from
// the rooms of other calls of the same session.
//
// Words: a published port is a port of the host, at 127.0.0.1 only, behind which a port of a process's own network
// answers. Ports knows all of them. A Link is one run's part of it: what it publishes, and what it reaches of its
// session's.
//
// How. A socket stays in the network namespace where it was made. A run that publishes gets a fixed number of sockets in
// its room's network, which the daemon holds and connects, one for each connection, and uses again. A run that
// reaches a port of its session gets a listening socket in its own network, at the same number, unless that is where its
// own server is to listen.
//
// Promises. Nothing is published on the host but at 127.0.0.1, nothing below 1024, no port of the daemon's own, and
// none that somebody else has at ::1. A port is reached from the host, and from calls of the very session whose process
// published it, and by nobody else in a room. When Close of a Link returns its ports are free, its connections are
// closed, and nobody connects to its run again.
//
// What it does not do. It does not look into connections or know who connects from the host: every user of the machine
// reaches its loopback address.
//
// Its words are those of docs/words.md.
package publish

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"palyra"
	"palyra/internal/hostport"
)

// Limits of what is published.
const (
	MostPorts = 8    // of one process
	LeastPort = 1024 // below it ports are the system's
	mostPort  = 1<<16 - 1
	mostConns = 32 // of one process at a time; others wait
	mostReach = 16 // ports of a session that one of its calls reaches
)

// Ports are the published ports of all processes.
type Ports struct {
	own []int // ports of the daemon's own listeners
	log *slog.Logger

	mu     sync.Mutex // guards byHost; a leaf lock
	byHost map[int]*port
}

// port is a published port.
type port struct {
	hostport.Pair
	link   *Link // of the process
	listen *net.TCPListener
	six    atomic.Bool // it answered at ::1 last
}

// New returns Ports. own lists the ports that are the daemon's own, open or not.
func New(own []int, log *slog.Logger) *Ports {
	return &Ports{own: own, log: log, byHost: map[int]*port{}}
}

// Check refuses ports that a session cannot publish, as far as Palyra itself knows. It does not try them: a call is
// planned before anybody was asked about it, and would learn which ports of this machine are taken. Open does.
func (p *Ports) Check(session palyra.SessionID, ports []hostport.Pair) error {
	if err := p.allowed(ports); err != nil {
		return err
	}
	for _, at := range ports {
		if err := p.published(session, at); err != nil {
			return err
		}
	}
	return nil
}

// allowed refuses ports that nobody may publish.
func (p *Ports) allowed(ports []hostport.Pair) error {
	if len(ports) > MostPorts {
		return refused(palyra.Invalid, "%d ports are too many", len(ports)).WithRemedy("publish at most %d for each process", MostPorts)
	}
	for i, at := range ports {
		switch {
		case at.Host < LeastPort || at.Host > mostPort:
			return refused(palyra.Denied, "port %d of this machine cannot be published", at.Host).
				WithRemedy("publish one from %d to %d, for example %d:%d", LeastPort, mostPort, 8080, max(1, at.Inside))
		case at.Inside < 1 || at.Inside > mostPort:
			return refused(palyra.Invalid, "%d is not a port of the process", at.Inside).WithRemedy("give one from 1 to %d", mostPort)
		case slices.Contains(p.own, at.Host):
			return refused(palyra.Denied, "port %d is Palyra's own", at.Host).WithRemedy("publish another: %s", other(at))
		case slices.ContainsFunc(ports[:i], func(o hostport.Pair) bool { return o.Host == at.Host }):
			return refused(palyra.Invalid, "port %d is published twice", at.Host).WithRemedy("name it once")
		}
	}
	return nil
}

// listen takes a port of the host's loopback address. A port that another has at ::1 alone is taken: clients of localhost
// would sometimes reach that one.
func listen(host int) (*net.TCPListener, error) {
	l, six, err := hostport.Loopback(host)
	if six != nil {
		_ = six.Close() // it was only asked for
	}
	return l, err
}

// bind listens on a port of the host's loopback address.
func (p *Ports) bind(session palyra.SessionID, at hostport.Pair) (*net.TCPListener, error) {
	l, err := listen(at.Host)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		if err := p.published(session, at); err != nil {
			return nil, err
		}
		return nil, refused(palyra.Conflict, "port %d of this machine is taken", at.Host).
			WithRemedy("publish another: %s", other(at)).WithCause(err)
	}
	return nil, refused(palyra.Unavailable, "port %d of this machine cannot be listened on", at.Host).
		WithRemedy("publish another").WithCause(err)
}

// published refuses a port that a process of the session publishes already.
func (p *Ports) published(session palyra.SessionID, at hostport.Pair) error {
	call := p.publisher(session, at.Host)
	if call == "" {
		return nil
	}
	return refused(palyra.Conflict, "port %d is published by process %s of this session", at.Host, call).
		WithRemedy("use that one, stop it first, or publish another: %s", other(at))
}

// other is an example of another port of the host for the same one inside.
func other(at hostport.Pair) string {
	host := at.Host + 10000
	if host > mostPort {
		host = at.Host - 10000
	}
	return hostport.Pair{Host: host, Inside: at.Inside}.String()
}

// publisher is the process of a session that publishes a port; "": there is none.
func (p *Ports) publisher(session palyra.SessionID, host int) palyra.CallID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.byHost[host]; at != nil && at.link.session == session {
		return at.link.call
	}
	return ""
}

// reached are the ports that other processes of a link's session publish, in order.
func (p *Ports) reached(of *Link) []*port {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*port
	for _, at := range p.byHost {
		if at.link.session == of.session && at.link.principal == of.principal {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b *port) int { return a.Host - b.Host })
	return out[:min(len(out), mostReach)]
}

// add makes a port known; false: another link has it.
func (p *Ports) add(at *port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byHost[at.Host] = at
}

func (p *Ports) remove(at *port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byHost[at.Host] == at {
		delete(p.byHost, at.Host)
	}
}

func refused(code palyra.Code, format string, args ...any) *palyra.Error {
	return palyra.Errorf(code, palyra.ReasonPortDenied, "%s", fmt.Sprintf(format, args...))
}
