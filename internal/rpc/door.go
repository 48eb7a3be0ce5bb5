package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"palyra"
	"palyra/internal/pace"
	"palyra/internal/rpc/wire"
)

// door is one socket and its server.
type door struct {
	name     string
	agent    bool         // whoever comes in is an agent
	room     *AgentSocket // of a run's own door: what it gives
	uid      int64        // whom it serves
	path     string
	far      bool                        // not a unix socket: there is no uid to look at
	hosts    func(string) bool           // of a far door: how it may be called
	cross    *http.CrossOriginProtection // of the console: its own pages only
	secure   bool                        // over TLS, to browsers
	listener net.Listener
	server   *http.Server
}

// peer is who is at the other end of a connection, as the kernel says.
type peer struct {
	uid     int64        // -1: the kernel would not say
	agent   bool         // came by the agent door
	room    *AgentSocket // came by a run's own door
	device  string       // came over mutual TLS, as this paired device
	until   time.Time    // with a certificate that holds so long
	console bool         // came by a listener of the console
	at      string       // by the one at this address
	plain   bool         // which is beyond this machine, and not encrypted
	address string       // of another machine, or a browser: whom it counts as
	conn    *counted     // of a browser
}

type peerKey struct{}

func peerOf(ctx context.Context) (peer, bool) {
	p, ok := ctx.Value(peerKey{}).(peer)
	return p, ok
}

// open binds the socket and prepares its server.
func (d *door) open(h http.Handler, s *Server, bodies *budget) error {
	var err error
	if d.listener, err = listen(d.path); err != nil {
		return err
	}
	d.uid = int64(os.Geteuid())
	d.prepare(h, s, bodies)
	return nil
}

// prepare makes the door's server.
func (d *door) prepare(h http.Handler, s *Server, bodies *budget) {
	d.limitConns(s, s.limits.conns)
	g := d.admission(h, s, bodies)
	d.server = d.http(g, s)
	d.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, peer{uid: peerUID(c), agent: d.agent, room: d.room})
	}
	d.server.Protocols.SetHTTP1(true)
	d.server.Protocols.SetUnencryptedHTTP2(true)
}

// limitConns bounds the door's connections.
func (d *door) limitConns(s *Server, most int) {
	d.listener = &connLimit{
		Listener: d.listener, most: most, rooms: d.cross != nil,
		full: func() { s.alarm.flood(d.name, palyra.ReasonRateLimited) },
	}
}

func (d *door) admission(h http.Handler, s *Server, bodies *budget) *admission {
	return &admission{
		next: h, door: d, euid: d.uid, alarm: s.alarm, limits: s.limits, bodies: bodies, live: &s.live,
		slots: make(chan struct{}, s.limits.requests), errs: connect.NewErrorWriter(),
	}
}

// http is a server with the limits that hold at every door.
func (d *door) http(h http.Handler, s *Server) *http.Server {
	return &http.Server{
		Handler:           pace.Unread(h),
		ReadHeaderTimeout: s.limits.header,
		IdleTimeout:       s.limits.idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // what clients do wrong
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: s.limits.write},
	}
}

func (d *door) close() error {
	err := d.server.Close()
	if lerr := d.listener.Close(); !errors.Is(lerr, net.ErrClosed) {
		err = errors.Join(err, lerr)
	}
	return err
}

// admission is the first check of a request: who is it, is there room, and how long may it take.
type admission struct {
	next   http.Handler
	door   *door
	euid   int64
	alarm  *alarm
	limits limits
	bodies *budget
	live   *credentials
	slots  chan struct{}
	errs   *connect.ErrorWriter
}

// ServeHTTP implements http.Handler.
func (g *admission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.door.cross != nil {
		secure(w.Header())
	}
	p, err := g.check(r)
	if err != nil {
		g.alarm.raise(palyra.AlertRaised{Reason: err.Reason, PeerUID: p.uid, Method: method(r)})
		g.refuse(w, r, err)
		return
	}
	if r.ContentLength > maxCallBody { // nothing of it is waited for
		if r.ProtoMajor == 1 { // of HTTP/2 other requests have the same connection
			w.Header().Set("Connection", "close")
		}
		g.refuse(w, r, errDeclared)
		takeRest(w, r)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	v := &visit{live: g.live, door: g.door.name, cancel: cancel}
	defer v.finish()
	if err := g.room(v, p); err != nil {
		g.alarm.flood(g.door.name, palyra.ReasonRateLimited)
		g.refuse(w, r, palyra.AsError(err))
		return
	}
	defer func() { <-g.slots }()
	rc := http.NewResponseController(w)
	body := &timedBody{
		ReadCloser: r.Body, w: w, rc: rc, bodies: g.bodies, limit: g.limits.body, whole: r.ProtoMajor == 1,
		all: r.Body == http.NoBody,
	}
	defer body.finish()
	body.begin()
	r = r.WithContext(context.WithValue(context.WithValue(ctx, bodyKey{}, body), visitKey{}, v))
	r.Body = body
	g.next.ServeHTTP(&timedWriter{ResponseWriter: w, rc: rc, limit: g.limits.write}, r)
	_ = body.Close() // once more than the handler does no harm
}

// check looks at where a request comes from.
func (g *admission) check(r *http.Request) (peer, *palyra.Error) {
	p, ok := peerOf(r.Context())
	if err := g.door.origin(r); err != nil {
		return p, err
	}
	if !ok || !g.door.far && p.uid != g.euid {
		return p, palyra.Errorf(palyra.Denied, palyra.ReasonForeignUID, "this daemon serves its own user only").
			WithRemedy("run the command as the user who runs the daemon")
	}
	return p, nil
}

// room takes one of the door's places. One device gets only a part of them.
func (g *admission) room(v *visit, p peer) error {
	if p.device != "" {
		if err := v.hold("device:"+p.device, v.live.begin()); err != nil {
			return err
		}
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too many requests are under way").
			WithRemedy("wait for some to end").WithAfter(time.Second)
	}
}

// refuse answers in the protocol the client speaks.
func (g *admission) refuse(w http.ResponseWriter, r *http.Request, e *palyra.Error) {
	if g.errs.IsSupported(r) {
		_ = g.errs.Write(w, r, wire.ToStatus(e))
		return
	}
	status := http.StatusForbidden
	switch {
	case e.Reason == palyra.ReasonInputTooLarge:
		status = http.StatusRequestEntityTooLarge
	case e.Code == palyra.Exhausted:
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", seconds(e.After))
	}
	http.Error(w, string(e.Reason)+": "+e.Text, status)
}

// takeRest reads on for a moment after a refusal: a client that is still sending when
// its connection ends would hear of that, and not of the refusal.
func takeRest(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if r.ProtoMajor != 1 || rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(time.Second)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, 2*maxCallBody) // whatever comes: the answer is given
}

// seconds is a wait as HTTP has it: whole seconds, at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(math.Ceil(d.Seconds()))), 10)
}

// method is the procedure of a request that was not routed yet, bounded.
func method(r *http.Request) string {
	const most = 128
	return palyra.Clip(r.URL.Path, most)
}
