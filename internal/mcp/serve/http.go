package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/mcp/task"
	"palyra/internal/pace"
)

// Path is where the HTTP server answers.
const Path = "/mcp"

// Bounds on what HTTP clients take up.
const (
	maxSessions  = 64
	maxRequests  = 128
	maxEvents    = 16 << 20 // bytes kept for streams that are resumed
	sessionIdle  = time.Hour
	headTimeout  = 10 * time.Second
	bodyTimeout  = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHead      = 16 << 10
	minToken     = 20
	shutPatience = 2 * time.Second
	stateless    = "2026-07-28" // the revision from which on there are no sessions
)

// HTTP serves clients on a loopback listener until ctx ends. Every request must show the token.
func (s *Server) HTTP(ctx context.Context, l net.Listener, token palyra.Secret) error {
	h, err := s.Handler(l.Addr().String(), token)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	kept := make(chan error, 1)
	go func() { kept <- s.Run(ctx) }()
	srv := &http.Server{Handler: pace.Unread(h), ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHead}
	down := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(down)
		<-s.stopping // requests that wait are answered first
		end, done := context.WithTimeout(context.Background(), shutPatience)
		defer done()
		if srv.Shutdown(end) != nil {
			_ = srv.Close()
		}
	})
	err = srv.Serve(l)
	stop()
	<-down // Serve returns before the last answer is out
	<-kept
	for session := range s.mcp.Sessions() { // else they would live on in the SDK
		_ = session.Close()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Handler answers HTTP requests to a loopback address: old revisions with sessions, the newest one without.
func (s *Server) Handler(address string, token palyra.Secret) (http.Handler, error) {
	hosts, err := loopback(address)
	if err != nil {
		return nil, err
	}
	events := mcp.NewMemoryEventStore(nil)
	events.SetMaxBytes(maxEvents)
	one := func(*http.Request) *mcp.Server { return s.mcp }
	door := &endpoint{
		server: s, hosts: hosts, room: make(chan struct{}, maxRequests),
		old: mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{
			Logger: s.Log, EventStore: events, SessionTimeout: sessionIdle, MaxRequestBodyBytes: maxMessage,
		}),
		new: mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{
			Logger: s.Log, Stateless: true, MaxRequestBodyBytes: maxMessage,
			PropagateRequestCancellation: true,
		}),
	}
	return door, token.Use(func(b []byte) error {
		if len(b) < minToken {
			return palyra.Errorf(palyra.Invalid, palyra.ReasonBadCredential, "the token has fewer than %d characters", minToken)
		}
		door.token = sha256.Sum256(b)
		return nil
	})
}

// loopback lists the names by which clients may call an address of this machine
// alone; any other address is refused.
func loopback(address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	if err != nil || ip == nil || !ip.IsLoopback() {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "MCP clients are served on a loopback address only").
			WithRemedy("use 127.0.0.1:PORT")
	}
	return []string{
		net.JoinHostPort(host, port), net.JoinHostPort("localhost", port), net.JoinHostPort("127.0.0.1", port),
		net.JoinHostPort("::1", port),
	}, nil
}

// endpoint checks a request before anything of it is read.
type endpoint struct {
	server *Server
	hosts  []string
	token  [sha256.Size]byte
	room   chan struct{}
	old    http.Handler
	new    http.Handler
}

// ServeHTTP implements http.Handler.
func (d *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if code, why := d.refuses(r); code != 0 {
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="palyra"`)
		}
		http.Error(w, why, code)
		return
	}
	select {
	case d.room <- struct{}{}:
		defer func() { <-d.room }()
	default:
		busy(w)
		return
	}
	if r.Method == http.MethodPost && d.read(w, r) {
		return
	}
	if r.Header.Get("Mcp-Protocol-Version") >= stateless {
		d.new.ServeHTTP(w, r)
		return
	}
	d.old.ServeHTTP(w, r)
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "too many MCP requests or sessions at once", http.StatusServiceUnavailable)
}

// refuses says why a request is not answered; 0 when it is.
func (d *endpoint) refuses(r *http.Request) (int, string) {
	switch origin := r.Header.Get("Origin"); {
	case !d.isOwnHost(r.Host):
		return http.StatusForbidden, "the Host header is not this server's"
	case len(r.Header.Values("Origin")) > 1 || origin != "" && !d.isOwnHost(strings.TrimPrefix(origin, "http://")):
		return http.StatusForbidden, "pages of other origins are not served"
	case !d.knows(r.Header.Values("Authorization")):
		return http.StatusUnauthorized, "a bearer token is needed; 'palyra mcp serve' says where it is"
	case r.URL.Path != Path:
		return http.StatusNotFound, "MCP is at " + Path
	}
	return 0, ""
}

func (d *endpoint) isOwnHost(host string) bool {
	return slices.ContainsFunc(d.hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// knows compares without telling how much was right.
func (d *endpoint) knows(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], d.token[:]) == 1
}

// read takes in a client's message: it drops a cancel that only says that the client gave up, and needs room
// for a new session. It reports whether the request is answered. The time limit is on the body alone: an
// answer may take longer.
func (d *endpoint) read(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength > maxMessage { // nothing of it is waited for
		giveUp(w, "the message is too large", http.StatusRequestEntityTooLarge)
		return true
	}
	limit := http.NewResponseController(w)
	body, err := io.ReadAll(http.MaxBytesReader(w, &paced{r.Body, limit, time.Now(), 0}, maxMessage))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		giveUp(w, "the message is too large", http.StatusRequestEntityTooLarge)
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		giveUp(w, "the message did not arrive in time", http.StatusRequestTimeout)
		return true
	}
	if err != nil {
		giveUp(w, "the message did not arrive", http.StatusBadRequest)
		return true
	}
	_ = limit.SetReadDeadline(time.Time{})
	if gaveUp(body) {
		w.WriteHeader(http.StatusAccepted)
		return true
	}
	if r.Header.Get("Mcp-Session-Id") == "" && r.Header.Get("Mcp-Protocol-Version") < stateless && d.sessions() >= maxSessions {
		busy(w)
		return true
	}
	if r.Header.Get("Mcp-Protocol-Version") < stateless {
		body = task.Lift(body)
		r.ContentLength = int64(len(body))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return false
}

// giveUp answers a request whose body is not waited for: the connection ends with
// it, and the deadline stays, so that the server does not wait either.
func giveUp(w http.ResponseWriter, text string, status int) {
	w.Header().Set("Connection", "close")
	http.Error(w, text, status)
}

// paced is a body that has the more time the more of it is there.
type paced struct {
	io.ReadCloser
	limit *http.ResponseController
	since time.Time
	got   int64
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	_ = p.limit.SetReadDeadline(p.since.Add(pace.Within(bodyTimeout, p.got)))
	n, err := p.ReadCloser.Read(b)
	p.got += int64(n)
	return n, err
}

func (d *endpoint) sessions() (n int) {
	for range d.server.mcp.Sessions() {
		n++
	}
	return n
}
