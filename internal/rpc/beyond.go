package rpc

import (
	"crypto/tls"
	"net"

	"palyra"
)

// OpenBeyond opens a door for browsers of other machines, of a kind, and returns its origin: over HTTPS by a name, with
// conf, or without conf over plain HTTP by its address alone. What is signed there may only deny.
func (s *Server) OpenBeyond(kind, listen, name string, conf *tls.Config) (string, error) {
	return s.openConsole(kind, func() (*consoleDoor, error) {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the console cannot be served at %s: %v", listen, err).
				WithRemedy("set console.%s_listen to a free address, or to off", kind).WithCause(err)
		}
		if conf == nil {
			at := l.Addr().String()
			return &consoleDoor{listener: l, address: "http://" + shortest(at, "80"), hosts: calledAt(at, "80"), plain: true}, nil
		}
		_, port, _ := net.SplitHostPort(l.Addr().String()) // a listener's own address is well-formed
		at := net.JoinHostPort(name, port)
		return &consoleDoor{listener: l, address: "https://" + shortest(at, "443"), hosts: calledAt(at, "443"), tls: conf}, nil
	})
}

// shortest leaves the port off that browsers leave off.
func shortest(at, usual string) string {
	if host, port, err := net.SplitHostPort(at); err == nil && port == usual {
		return host
	}
	return at
}

// calledAt reports whether a door is called as browsers call it.
func calledAt(at, usual string) func(string) bool {
	short := shortest(at, usual)
	return func(host string) bool { return host == at || host == short }
}
