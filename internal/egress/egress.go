// Package egress is the guard: the only way out of a run's own network.
//
// Words: a Guard holds what the operator set. A Session serves one run: it knows the rules of the run's plan
// (host:port, *.suffix:port, address:port) and answers at Doors, which are sockets in the run's own network. A
// target is a host and a port that somebody wants to reach; a flow is the record of one connection. The doors are a
// proxy (HTTP CONNECT, plain HTTP and SOCKS5 on one port), a name server that gives out synthetic addresses, and
// direct doors at those addresses for programs that know of no proxy.
//
// Promises, in mode strict: a target is decided by its name before anything is looked up, and names that are not
// let through never leave this process, not even as a question to a name server. The guard looks names up itself,
// dials only addresses that it checked, and refuses those that are not of the public Internet, or are this
// machine's own, unless they were granted literally or the operator named their range. Below a granted suffix a run
// reaches a bounded number of names, since names themselves carry what a run puts into them. What a client says
// first must fit what was let through: the name in a TLS ClientHello (also in a second one, after the server asked
// for it), the Host of every plain HTTP request of a connection. What people answer on the way holds as long as
// they said; when it is taken back, what it let through is cut. Every connection is counted and recorded, refused
// ones with the name; a run cannot push a byte off its record. Everything a client can send is bounded in size and
// time, connections are shared so that no principal can have them all, and nothing of a session is left after
// Close.
//
// In the modes preflight and none any name may be reached, by the same doors and with the same checks of addresses.
//
// Where a secret is lent to a run, the TLS of the hosts that it is bound to is opened (package lend).
//
// What it does not do: it does not look into other TLS, so the Host inside is the server's business, as is what a granted
// server passes on; TLS that begins later in a connection (STARTTLS) is not seen, nor is anything after a first
// line that is no request; UDP does not get out at all. With an upstream proxy names are looked up by that proxy:
// an address is checked as this machine sees it, and a name that does not exist here is left to the proxy.
//
// Its words are those of docs/words.md.
package egress

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"palyra"
)

// The modes.
const (
	Strict    = palyra.NetworkStrict
	Preflight = palyra.NetworkPreflight
	None      = palyra.NetworkOpen
)

// Ask puts a question to people while a connection waits: may this run reach host:port? An error
// means no, for the rest of the run. It returns soon after ctx ends.
type Ask func(ctx context.Context, c *palyra.Call, host string, port int) (Answer, error)

// Answer is a yes. It lets connections begin until it is over; open ones are cut when it is taken back.
type Answer struct {
	Until   time.Time       // zero: to the end of the run
	Grant   palyra.GrantID  // the grant of the call that allowed it
	Revoked <-chan struct{} // closed when it is taken back; nil: never
}

// Config is what the operator sets. Zero values are the strict ones.
type Config struct {
	Mode          palyra.NetworkMode // one of the modes; empty: strict
	Allowed       []string           // host or *.suffix, optional :port; the most that plans may name. Empty: no bound
	HostNetwork   bool               // in mode none: private addresses and this machine's own may be reached
	PrivateRanges []netip.Prefix     // may be reached by names as well
	Resolver      string             // address:port of a name server; empty: the system's
	Upstream      string             // http://[user:password@]host:port or socks5://…, through which everything leaves
	Ask           Ask                // nil: nobody is asked, and a target that the plan does not name is refused
	Roots         *x509.CertPool     // that servers of bound hosts are verified by; nil: the system's
	MaxConns      int                // of a session at a time
	MaxFlows      int                // listed of a session; further ones are added up
	MaxWildcard   int                // names below one suffix that a session may reach, in mode strict
	Now           func() time.Time
	Log           *slog.Logger
}

const (
	defaultConns = 256
	defaultFlows = 256
)

// Guard opens sessions.
type Guard struct {
	cfg      Config
	allowed  []rule
	upstream *parentProxy
	names    *resolver
	own      *own
	dialer   *net.Dialer
	dialTCP  func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error)
	places   *places
	buffers  *buffers
	base     netip.Addr // first synthetic address
	times    times
}

// New makes a guard.
func New(c Config) (*Guard, error) {
	g := &Guard{cfg: withDefaults(c), times: usual, buffers: newBuffers(), base: firstSynthetic}
	if err := g.check(); err != nil {
		return nil, err
	}
	var err error
	if g.upstream, err = parseUpstream(c.Upstream); err != nil {
		return nil, err
	}
	g.dialer = &net.Dialer{KeepAlive: 30 * time.Second}
	g.dialTCP = func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
		return g.dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, to)
	}
	g.names = newResolver(c.Resolver, g.dialer, g.cfg.Now)
	g.own = &own{list: net.InterfaceAddrs, now: g.cfg.Now}
	g.places = newPlaces(totalPlaces)
	return g, nil
}

func withDefaults(c Config) Config {
	c.Mode = cmp.Or(c.Mode, Strict)
	if c.MaxConns <= 0 {
		c.MaxConns = defaultConns
	}
	if c.MaxFlows <= 0 {
		c.MaxFlows = defaultFlows
	}
	if c.MaxWildcard <= 0 {
		c.MaxWildcard = defaultWildcard
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// check refuses ambiguous settings.
func (g *Guard) check() error {
	c := g.cfg
	bad := func(format string, args ...any) *palyra.Error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "egress: "+format, args...)
	}
	switch c.Mode {
	case Strict, Preflight, None:
	default:
		return bad("there is no mode %q", palyra.Clip(string(c.Mode), maxShown)).WithRemedy("use strict, preflight or none")
	}
	if c.HostNetwork && c.Mode != None {
		return bad("host_network is for mode none only").WithRemedy("name the ranges that may be reached instead")
	}
	for _, p := range c.PrivateRanges {
		if !p.IsValid() || p.Addr().Is4In6() {
			return bad("%s is not a range", p).WithRemedy("write ranges as 10.0.0.0/8 or fd00::/8")
		}
	}
	if _, err := netip.ParseAddrPort(c.Resolver); c.Resolver != "" && err != nil {
		return bad("the resolver %q is not address:port", palyra.Clip(c.Resolver, maxShown)).WithRemedy("write it as 192.0.2.53:53")
	}
	for _, s := range c.Allowed {
		r, err := parseAllowed(s)
		if err != nil {
			return bad("allowed hosts: %s", err).WithRemedy("write host, host:port, *.suffix or *.suffix:port").WithCause(err)
		}
		g.allowed = append(g.allowed, r)
	}
	return nil
}

// Check reads the hosts that a plan is to name and returns them in their one spelling, in order and without
// repeats. A host that cannot be read, or that the operator does not allow, is an error that names it.
func (g *Guard) Check(hosts []string) ([]string, error) {
	rules, err := g.rules(hosts)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(rules))
	for i, r := range rules {
		out[i] = r.String()
	}
	return out, nil
}

func (g *Guard) rules(hosts []string) ([]rule, error) {
	rules, err := parseRules(hosts)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if err := g.noSelf(r.target); err != nil {
			return nil, err
		}
		if !g.mayName(r) {
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is not among the hosts that the operator allows", r).
				WithRemedy("the operator can add it to egress.allowed_hosts in the configuration")
		}
	}
	return rules, nil
}

// noSelf refuses a local name where no local address can be reached by name: people's answer could not change that.
func (g *Guard) noSelf(t target) error {
	if !t.local() || g.reachable(loopback4, false) || g.reachable(loopback6, false) {
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is this machine itself, where no name leads", t.host).
		WithRemedy("name the address itself (%s), or let the operator add 127.0.0.0/8 to egress.private_ranges",
			target{host{addr: loopback4}, t.port})
}

// mayName reports whether the operator lets plans and questions name r.
func (g *Guard) mayName(r rule) bool {
	for _, a := range g.allowed {
		if r.within(a) {
			return true
		}
	}
	return len(g.allowed) == 0
}

// Preflight looks up the hosts of a plan, in mode preflight only, and fails for the first that
// cannot be reached. A suffix cannot be looked up.
func (g *Guard) Preflight(ctx context.Context, hosts []string) error {
	if g.cfg.Mode != Preflight {
		return nil
	}
	rules, err := g.rules(hosts)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if r.below || g.upstream != nil {
			continue
		}
		if _, err := g.addresses(ctx, r.target, true); err != nil {
			return err
		}
	}
	return nil
}

// Open makes a session for a run that may reach the hosts of its plan. Without a call nobody is asked.
func (g *Guard) Open(ctx context.Context, c *palyra.Call, p palyra.Plan) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "the call was cancelled").WithCause(err)
	}
	rules, err := g.rules(p.Egress)
	if err != nil {
		return nil, err
	}
	return newSession(g, c, rules)
}
