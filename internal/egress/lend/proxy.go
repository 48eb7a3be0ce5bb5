package lend

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/secrets"
)

// Way is the way of one connection to a bound host.
type Way struct {
	Name string                                      // of the host, or its address: what the client must ask for
	At   string                                      // host:port
	Dial func(ctx context.Context) (net.Conn, error) // to the server
	Note func(Use)                                   // is told of placeholders
	Sign func(Signature) error                       // is told of each signature before it is made; nil: none is
	Head time.Duration                               // for a request's head, or a handshake
	Idle time.Duration                               // between requests
}

// The limits of a connection.
const (
	maxHead    = 64 << 10
	maxStreams = 16
	maxServers = 8   // connections to the server, for one of a client
	maxAtOnce  = 128 // requests of one run
)

// silent hears what net/http says of clients and servers that misbehave: strangers decide what that is.
var silent = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)

// errName means that a client asks for another host than it was let through to.
var errName = errors.New("lend: the client asks for another host")

// ErrClientTrust means that a client does not trust the run's authority.
var ErrClientTrust = errors.New("lend: the client does not trust the authority of the run")

// Serve answers a client at a bound host until the connection ends: TLS is opened, values go in, and the requests go on
// to the server. It closes the client.
func (d *Desk) Serve(client net.Conn, w Way) error {
	defer func() { _ = client.Close() }()
	secure := tls.Server(client, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if net.ParseIP(w.Name) == nil && !strings.EqualFold(strings.TrimSuffix(h.ServerName, "."), w.Name) {
				return nil, errName
			}
			return d.vouch.certificate(w.Name)
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), w.Head)
	err := secure.HandshakeContext(ctx)
	cancel()
	if err != nil {
		return handshakeError(err)
	}
	x := &exchange{desk: d, way: w, masks: masksOf(d.loans), h1: d.transport(w, "http/1.1"), any: d.transport(w, "h2", "http/1.1")}
	x.one.dial = d.secure(w, "http/1.1")
	defer x.one.CloseIdleConnections()
	defer x.any.CloseIdleConnections()
	defer x.h1.CloseIdleConnections()
	rest := net.Conn(secure)
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		rest = x.inTurns(secure)
	}
	if rest != nil {
		x.serve(rest)
	}
	x.end()
	x.masks.clear()
	return nil
}

// serve answers a client by net/http.
func (x *exchange) serve(client net.Conn) {
	one := &single{conn: client, ended: make(chan struct{})}
	server := &http.Server{
		Handler: x, ReadHeaderTimeout: x.way.Head, IdleTimeout: x.way.Idle, MaxHeaderBytes: maxHead, ErrorLog: silent,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnState: func(_ net.Conn, s http.ConnState) { one.state(s) },
	}
	_ = server.Serve(one)
}

// begin announces a request; false: the connection is over, and so are the secrets.
func (x *exchange) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return false
	}
	x.busy.Add(1)
	return true
}

// end waits for the requests that have begun, and lets no more begin.
func (x *exchange) end() {
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	x.busy.Wait()
}

// handshakeError tells apart why a client was not let in.
func handshakeError(err error) error {
	var alert tls.AlertError
	if errors.As(err, &alert) || strings.Contains(err.Error(), "remote error: tls: ") {
		for _, why := range []string{"unknown certificate authority", "bad certificate", "unknown certificate", "certificate"} {
			if strings.Contains(err.Error(), why) {
				return ErrClientTrust
			}
		}
	}
	return err
}

// IsOtherHost reports whether a client was refused because it asked for another host.
func IsOtherHost(err error) bool { return errors.Is(err, errName) }

// secure connects to the server, for some protocols.
func (d *Desk) secure(w Way, protocols ...string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		raw, err := w.Dial(ctx)
		if err != nil {
			return nil, err
		}
		c := tls.Client(newRecords(raw), &tls.Config{ServerName: w.Name, RootCAs: d.roots, MinVersion: tls.VersionTLS12, NextProtos: protocols})
		if err := c.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return c, nil
	}
}

// transport is the way to the server by some protocols.
func (d *Desk) transport(w Way, protocols ...string) *http.Transport {
	connect := d.secure(w, protocols...)
	return &http.Transport{
		DialTLSContext:    func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
		ForceAttemptHTTP2: protocols[0] == "h2", DisableCompression: true, MaxIdleConnsPerHost: 4, MaxConnsPerHost: maxServers,
		IdleConnTimeout:     w.Idle,
		TLSHandshakeTimeout: w.Head, MaxResponseHeaderBytes: maxHead,
	}
}

// single is a listener with one connection.
type single struct {
	conn  net.Conn
	once  sync.Once
	over  sync.Once
	ended chan struct{}
}

// Accept implements net.Listener.
func (s *single) Accept() (c net.Conn, err error) {
	s.once.Do(func() { c = s.conn })
	if c != nil {
		return c, nil
	}
	<-s.ended
	return nil, net.ErrClosed
}

// state hears what becomes of the connection.
func (s *single) state(now http.ConnState) {
	if now == http.StateClosed || now == http.StateHijacked {
		s.over.Do(func() { close(s.ended) })
	}
}

// Close implements net.Listener.
func (s *single) Close() error { return nil }

// Addr implements net.Listener.
func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }

// exchange answers the requests of one connection.
type exchange struct {
	desk    *Desk
	way     Way
	masks   masks
	h1, any *http.Transport
	one     inTurn
	busy    sync.WaitGroup
	mu      sync.Mutex // guards over; a leaf lock
	over    bool
}

// ServeHTTP implements http.Handler.
func (x *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !x.begin() {
		return
	}
	defer x.busy.Done()
	leave, ok := x.enter(r.Context())
	if !ok {
		return
	}
	defer leave()
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &paced{r.Body, http.NewResponseController(w), x.way.Idle}
	}
	if status, e := x.prepare(r); e != nil {
		refuse(w, status, e)
		return
	}
	x.pass(w, r)
}

// enter waits for a place among the requests of the run.
func (x *exchange) enter(ctx context.Context) (leave func(), ok bool) {
	select {
	case x.desk.places <- struct{}{}:
		return func() { <-x.desk.places }, true
	case <-ctx.Done():
		return nil, false
	}
}

// prepare puts values into a request, or refuses it.
func (x *exchange) prepare(r *http.Request) (status int, e *palyra.Error) {
	if upgrade := r.Header.Get("Upgrade"); r.Method == http.MethodConnect || upgrade != "" && !strings.EqualFold(upgrade, "websocket") {
		return http.StatusMethodNotAllowed, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
			"at a host that a secret is bound to only requests and WebSockets are passed on").WithRemedy("send a plain request")
	}
	if !plainTarget(r) {
		return http.StatusBadRequest, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
			"at a host that a secret is bound to a request names a path").WithRemedy("send a plain request")
	}
	if !x.rightHost(r.Host) {
		return http.StatusMisdirectedRequest, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
			"the request is for another host than the connection: %s", palyra.Clip(r.Host, 128)).WithRemedy("connect to that host")
	}
	r.Trailer = nil // where nobody looks for placeholders
	r.Header.Del("Trailer")
	signer, err := x.sign(r)
	if err != nil {
		x.way.Note(Use{Stray: []string{signer}})
		return http.StatusForbidden, palyra.AsError(err)
	}
	use, err := x.desk.substitute(r, x.way.At)
	if err != nil {
		return http.StatusBadRequest, palyra.AsError(err)
	}
	x.watch(r)
	if len(use.Used) > 0 { // an answer in parts could have parts of a value
		r.Header.Del("Range")
		r.Header.Del("If-Range")
	}
	if signer != "" {
		use.used(signer)
	}
	if len(use.Used)+len(use.Stray) > 0 {
		x.way.Note(use)
	}
	return 0, nil
}

// plainTarget reports whether a request asks for a path of its Host. What net/url cannot take apart, as x:https://other/,
// would be written out as it is, and name another host to whoever reads it.
func plainTarget(r *http.Request) bool {
	return r.URL.Opaque == "" && (strings.HasPrefix(r.URL.Path, "/") || r.Method == http.MethodOptions && r.URL.Path == "*")
}

// rightHost reports whether the Host of a request names the host that was let through.
func (x *exchange) rightHost(says string) bool {
	if _, _, err := net.SplitHostPort(says); err != nil {
		says = net.JoinHostPort(strings.Trim(says, "[]"), "443")
	}
	return strings.EqualFold(says, x.way.At)
}

// watch has placeholders in a body told of, which stay there.
func (x *exchange) watch(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &watched{ReadCloser: r.Body, loans: x.desk.loans, note: x.way.Note}
	}
}

// pass hands a request on and the response back.
func (x *exchange) pass(w http.ResponseWriter, r *http.Request) {
	upgrades := r.Header.Get("Upgrade") != ""
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			x.readdress(p.Out)
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if v, ok := p.In.Header[name]; ok {
					p.Out.Header[name] = v
				}
			}
		},
		Transport: x.any, ErrorLog: silent, BufferPool: copies{}, // what has no known length is passed on as it comes
		ModifyResponse: func(res *http.Response) error { return x.back(r, res) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, unreached(x.way.At, err))
		},
	}
	switch {
	case upgrades:
		proxy.Transport = x.h1
	case x.one.takes(r):
		proxy.Transport = &x.one
	}
	proxy.ServeHTTP(maskedHead{w, x.masks}, r)
}

// readdress has a request go to the server, and ask for nothing that cannot be searched.
func (x *exchange) readdress(r *http.Request) {
	r.URL.Scheme, r.URL.Host, r.Host = "https", x.way.At, hostInURL(x.way.At)
	r.Header.Del("Accept-Encoding")
	r.Header.Del("Accept-Charset")
	r.Header.Del("Sec-Websocket-Extensions")
}

// copies are the buffers of bodies on their way back. Values are masked in those.
type copies struct{}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Get implements httputil.BufferPool.
func (copies) Get() []byte { return copyBuffers.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (copies) Put(b []byte) { copyBuffers.Put((*[32 << 10]byte)(b)) }

// errEncoded means that a server compressed what was asked for plain.
var errEncoded = errors.New("lend: the answer is compressed in a way that cannot be searched")

// back masks a response.
func (x *exchange) back(r *http.Request, res *http.Response) error {
	x.masks.head(res.Header)
	x.masks.head(res.Trailer) // the names that are announced
	res.Status = ""           // its words are the server's
	if res.StatusCode == http.StatusSwitchingProtocols {
		if c, ok := res.Body.(io.ReadWriteCloser); ok {
			res.Body = x.upgraded(c)
		}
		return nil
	}
	switch strings.ToLower(strings.Join(res.Header["Content-Encoding"], ",")) {
	case "", "identity":
	case "gzip":
		if r.Method == http.MethodHead || len(x.masks.pairs) == 0 {
			return nil
		}
		plain, err := gzip.NewReader(res.Body)
		if err != nil {
			return errEncoded
		}
		res.Body = both{plain, res.Body}
		res.Header.Del("Content-Encoding")
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	default:
		if len(x.masks.pairs) > 0 && r.Method != http.MethodHead {
			return errEncoded
		}
	}
	res.Body = x.masks.reader(res.Body, res.ContentLength, func() { x.masks.head(res.Trailer) }) // which is known then
	return nil
}

// maskedHead is the way back of a response: informational heads, which come before it, are masked as well.
type maskedHead struct {
	http.ResponseWriter
	masks masks
}

// WriteHeader implements http.ResponseWriter.
func (w maskedHead) WriteHeader(status int) {
	if status < http.StatusOK {
		w.masks.head(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w maskedHead) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// unreached is the refusal when a server cannot be reached.
func unreached(at string, err error) *palyra.Error {
	var e *palyra.Error
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &cert):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonEgressDenied, "the certificate of %s is not trusted: %s", at, cert.Err).
			WithRemedy("put the authority that signed it among those of the machine that runs palyrad")
	case errors.Is(err, errEncoded):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonEgressDenied, "%s answers compressed, so that no secret could be found in it", at).
			WithRemedy("have the server answer uncompressed when it is asked to")
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonNotFound, "%s cannot be reached", at).WithCause(err)
}

// refuse answers in the server's place.
func refuse(w http.ResponseWriter, status int, e *palyra.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(refusalText(e))
}

func refusalText(e *palyra.Error) []byte {
	text, _ := json.Marshal(map[string]string{"reason_code": string(e.Reason), "reason": e.Text, "remedy": e.Remedy})
	return append(text, '\n')
}

// paced is a body whose sender may pause, and not for ever.
type paced struct {
	io.ReadCloser
	conn *http.ResponseController
	idle time.Duration
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	_ = p.conn.SetReadDeadline(time.Now().Add(p.idle))
	return p.ReadCloser.Read(b)
}

// watched tells of placeholders in a body.
type watched struct {
	io.ReadCloser
	loans []secrets.Loan
	note  func(Use)
	tail  []byte // of what was read before
}

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	seen := string(b.tail) + string(p[:n])
	longest := 0
	for _, l := range b.loans {
		longest = max(longest, len(l.Placeholder))
		if strings.Contains(seen, l.Placeholder) {
			b.note(Use{Stray: []string{l.Name}})
		}
	}
	b.tail = append(b.tail[:0], seen[max(0, len(seen)-longest+1):]...)
	return n, err
}
