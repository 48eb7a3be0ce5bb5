// Package fetch has palyra.http.fetch, which makes one HTTP request and returns the answer, and
// palyra.egress.allow, which only asks.
//
// Words: the target of a request is its host:port; a hop is one request of a call and the answer to
// it; the origin of an address is its scheme, host and port. A session is a run's way out, made by
// the egress guard for this call alone.
//
// Promises. Every connection goes through the session, which decides by the plan's hosts; nothing else dials, and
// no proxy of the environment is used. A redirect to a target that the plan does not name is refused with its name,
// and one from https to http always. Neither a body nor a header of the call's own goes to another origin, except
// headers that only say what the caller understands. Certificates are checked. Headers that carry credentials are
// refused, because a call is recorded in clear: secrets come by binding, and their values go into requests to their
// hosts at the last moment, over TLS, and into nothing that is kept or delivered. Cookies are neither kept nor
// delivered. Answers are read up to a
// bound, unpacked or not, and within the call's time.
//
// What it does not do. It keeps no connection, no cache and no state between calls. It does not
// look into the answer, whose author chooses its content. It speaks HTTP/1.1 only. Secrets in an
// address are not recognised for certain; names that look like one are noted in the plan.
package fetch

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"

	"palyra"
	"palyra/internal/tool"
)

// Names of the tools.
const (
	Name      = palyra.ToolFetch
	AllowName = palyra.ToolAllowHost
)

// Gateway is the way out for one call.
type Gateway interface {
	// DialContext connects to host:port, or refuses it. The session itself resolves names.
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	// Close ends every connection and returns the flows; more says how many are not listed.
	Close() (flows []palyra.EgressFlow, more int64)
}

// Hosts knows which hosts may be asked for.
type Hosts interface {
	// Check returns host:port entries in their one form, or refuses them. It looks nothing up.
	Check(hosts []string) ([]string, error)
	// Public reports whether an address is one of the public Internet and not this machine's own.
	Public(a netip.Addr) bool
}

// Config wires the tools.
type Config struct {
	Open  func(ctx context.Context, p palyra.Plan) (Gateway, error) // nil: fetching is switched off
	Hosts Hosts                                                     // nil: any host may be asked for by its plain name
	Roots *x509.CertPool                                            // trusted authorities; nil: those of the system

	Secrets Secrets // nil: there are none to use
}

// All returns the package's tools.
func All(c Config) []tool.Tool { return []tool.Tool{fetcher{c}, allower{c}} }

// reasonFailed is for requests that got no usable answer.
const reasonFailed = palyra.ReasonFetchFailed

func failed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, reasonFailed, format, args...)
}

func malformed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...).WithRemedy("see 'palyra tools show %s'", Name)
}
