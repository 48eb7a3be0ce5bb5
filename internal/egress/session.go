package egress

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/egress/lend"
)

// times are the timeouts of the guard.
type times struct {
	first time.Duration // for a client of the proxy to send its first byte
	head  time.Duration // for the rest of a request's head, a ClientHello or a SOCKS exchange
	quiet time.Duration // at 80 and 443, for the client to speak before the server may
	idle  time.Duration // for anything to happen on a connection
	look  time.Duration // between checks of idle connections
	dial  time.Duration // for a connection
}

var usual = times{
	first: time.Minute, head: 10 * time.Second, quiet: 500 * time.Millisecond,
	idle: 15 * time.Minute, look: time.Minute, dial: 20 * time.Second,
}

// Session is the guard of one run: it lets the run reach the hosts of its plan.
type Session struct {
	guard     *Guard
	call      *palyra.Call // nil: nobody is asked
	rules     []rule
	token     string
	ctx       context.Context // ends with the session
	cancel    context.CancelFunc
	wildcards wildcards
	ledger    *ledger
	book      *book
	questions questions
	slots     chan struct{} // one for each client at a door
	seat      *seat         // among those of all sessions
	doors     []listener
	desk      *lend.Desk // nil: nothing is lent to the run
	lent      func(host string, u lend.Use)
	signs     func(host string, s lend.Signature) error

	mu     sync.Mutex // guards the fields below; a leaf lock
	closed bool
	open   map[io.Closer]*question // each is closed with the session, and with the answer that let it through, if one did
	work   sync.WaitGroup
}

func newSession(g *Guard, c *palyra.Call, rules []rule) (*Session, error) {
	var names []string
	for _, r := range rules {
		if !r.below && !r.literal() && !r.local() && (len(names) == 0 || names[len(names)-1] != r.name) {
			names = append(names, r.name)
		}
	}
	s := &Session{
		guard: g, call: c, rules: rules, token: rand.Text(), ledger: newLedger(g.cfg.MaxFlows),
		wildcards: wildcards{most: g.cfg.MaxWildcard, seen: map[rule]map[string]bool{}}, book: newBook(g.base, names),
		questions: questions{asked: map[target]*question{}}, slots: make(chan struct{}, g.cfg.MaxConns), open: map[io.Closer]*question{},
	}
	if s.doors = s.plan(); len(s.doors) > cell.MaxDoors {
		return nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "the hosts that the plan names need %d doors", len(s.doors)).
			WithRemedy("name fewer hosts with ports of their own: %d doors are the most", cell.MaxDoors)
	}
	s.seat = &seat{whose: s}
	if c != nil && c.Proposal.Principal != "" {
		s.seat.whose = c.Proposal.Principal
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Doors lists the sockets that the session needs in the run's own network. Equal plans need equal doors.
func (s *Session) Doors() []cell.Listener {
	out := make([]cell.Listener, len(s.doors))
	for i, d := range s.doors {
		out[i] = d.Listener
	}
	return out
}

// Env returns the variables that lead programs to the proxy. They hold the session's token.
func (s *Session) Env() []string {
	at := netip.AddrPortFrom(offset(s.book.base, serverOffset), proxyPort).String()
	who := url.UserPassword(proxyUser, s.token)
	web := (&url.URL{Scheme: "http", User: who, Host: at}).String()
	const direct = "localhost,127.0.0.1,::1"
	return slices.Concat([]string{
		"HTTP_PROXY=" + web, "HTTPS_PROXY=" + web, "ALL_PROXY=" + web, "NO_PROXY=" + direct,
		"http_proxy=" + web, "https_proxy=" + web, "all_proxy=" + web, "no_proxy=" + direct,
		"NODE_USE_ENV_PROXY=1",
	}, s.desk.Env())
}

// DialContext connects to a "host:port" for a tool that is part of the daemon. The connection is
// decided, looked up, checked and counted like any other. Networks other than TCP are refused.
func (s *Session) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if !isTCP(network) {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "only TCP gets out")
	}
	t, err := parseTarget(addr)
	if err != nil {
		return nil, err
	}
	if !s.enter() {
		return nil, ended()
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	defer func() { stop(); cancel() }()
	up, f, _, err := s.connect(ctx, doorFetch, t)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: up, session: s, flow: f}, nil
}

func ended() *palyra.Error {
	return palyra.Errorf(palyra.Expired, palyra.ReasonRunEnded, "the run has ended, and its connections with it")
}

// connect decides on a target and dials it. The session closes the connection when it ends; the
// caller gives it back with drop.
func (s *Session) connect(ctx context.Context, door string, t target) (*net.TCPConn, *flow, permit, error) {
	p, err := s.decide(ctx, door, t)
	if err != nil {
		s.refused(door, t, err)
		return nil, nil, p, err
	}
	up, address, err := s.guard.dial(ctx, p)
	if err != nil {
		if palyra.AsError(err).Reason == palyra.ReasonEgressDenied {
			s.refused(door, t, err)
		} else {
			s.ledger.fail(door, p)
		}
		return nil, nil, p, err
	}
	if !s.track(up, p.answer) {
		err = ended()
		if p.answer != nil && p.answer.revoked() {
			err = takenBack(t)
			s.refused(door, t, err)
		}
		return nil, nil, p, err
	}
	return up, s.ledger.start(door, p, address), p, nil
}

// refused records a refusal, and logs the first of its kind.
func (s *Session) refused(door string, t target, err error) {
	if s.ledger.refuse(door, t.host.String(), t.port) {
		s.guard.cfg.Log.Info("egress: refused", "door", door, "host", t.host.String(), "port", strconv.Itoa(t.port), "why", err.Error())
	}
}

// spawn runs work that Close waits for; false means that the session is closed.
func (s *Session) spawn(work func()) bool {
	if !s.enter() {
		return false
	}
	go func() {
		defer s.leave()
		work()
	}()
	return true
}

// enter announces work that Close is to wait for.
func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Add(1)
	return true
}

func (s *Session) leave() { s.work.Done() }

// track makes the session close c when it ends, or when the answer that let c through is taken
// back. False means that this has happened, and c is closed.
func (s *Session) track(c io.Closer, by *question) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || by != nil && by.revoked() {
		_ = c.Close()
		return false
	}
	s.open[c] = by
	return true
}

// cutAll closes the connections that an answer let through.
func (s *Session) cutAll(by *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, q := range s.open {
		if q != by {
			continue
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
}

// drop closes a tracked connection.
func (s *Session) drop(c io.Closer) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	_ = c.Close()
}

// Close ends every connection and returns the flows; more says how many were added to listed ones
// or are not listed. It can be called again.
func (s *Session) Close() (flows []palyra.EgressFlow, more int64) {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	clear(s.open)
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.desk.Close()
	return s.ledger.list()
}

// Flows returns the flows so far, as Close does at the end.
func (s *Session) Flows() (flows []palyra.EgressFlow, more int64) { return s.ledger.list() }

// counted is a connection that a tool of the daemon holds.
type counted struct {
	net.Conn
	session *Session
	flow    *flow
	once    sync.Once
}

// Read implements net.Conn. Close of the session waits for it, so that the flow has every byte.
func (c *counted) Read(b []byte) (int, error) {
	if !c.session.enter() {
		return 0, net.ErrClosed
	}
	defer c.session.leave()
	n, err := c.Conn.Read(b)
	c.flow.in.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *counted) Write(b []byte) (int, error) {
	if !c.session.enter() {
		return 0, net.ErrClosed
	}
	defer c.session.leave()
	n, err := c.Conn.Write(b)
	c.flow.out.Add(int64(n))
	return n, err
}

// NetConn is the connection itself, as of a tls.Conn.
func (c *counted) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *counted) Close() error {
	err := fmt.Errorf("egress: close: %w", net.ErrClosed)
	c.once.Do(func() {
		c.session.drop(c.Conn)
		err = nil
	})
	return err
}
