package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"embed"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"palyra"
	"palyra/internal/hostport"
	"palyra/internal/passkey"
	"palyra/internal/web"
)

//go:embed page
var pages embed.FS

const (
	maxForm    = 4 << 10
	maxConsole = 512 // connections at once
)

// OpenConsole opens the door for browsers on this machine and returns its address. It is closed when the server stops.
func (s *Server) OpenConsole(listen string) (string, error) {
	return s.openConsole("", func() (*consoleDoor, error) {
		l, err := loopback(listen)
		if err != nil {
			return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the console cannot be served at %s: %v", listen, err).
				WithRemedy("set console.listen to a free address (127.0.0.1:0 takes any), or to off").WithCause(err)
		}
		name := consoleName(l.Addr())
		return &consoleDoor{listener: l, address: name, hosts: called(name)}, nil
	})
}

// consoleDoor is one address at which browsers come in.
type consoleDoor struct {
	listener net.Listener
	tls      *tls.Config
	address  string // its origin; of the one on this machine the host and port alone
	hosts    func(string) bool
	plain    bool // beyond this machine, and not encrypted
	serving  *serving
}

// openConsole opens a door for browsers, once.
func (s *Server) openConsole(kind string, open func() (*consoleDoor, error)) (string, error) {
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	if s.stopping.Err() != nil {
		return "", errStopping
	}
	if c := s.console.doors[kind]; c != nil {
		return c.address, nil
	}
	c, err := open()
	if err != nil {
		return "", err
	}
	d := &door{
		name: "console", far: true, listener: c.listener, hosts: c.hosts, cross: http.NewCrossOriginProtection(), secure: c.tls != nil,
	}
	d.limitConns(s, maxConsole)
	if c.tls != nil {
		d.listener = tls.NewListener(d.listener, c.tls)
	}
	d.server = d.http(d.admission(s.prove(s.pages()), s, s.bodies), s)
	d.server.Protocols.SetHTTP1(true)
	d.server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		p := peer{uid: -1, console: true, at: c.address, plain: c.plain, address: place(nc.RemoteAddr().String())}
		if t, ok := nc.(*tls.Conn); ok {
			nc = t.NetConn()
		}
		p.conn, _ = nc.(*counted)
		return context.WithValue(ctx, peerKey{}, p)
	}
	if s.console.doors == nil {
		s.console.doors = map[string]*consoleDoor{}
		s.console.codes, s.console.sessions = map[palyra.Digest]ticket{}, map[palyra.Digest]ticket{}
	}
	c.serving = s.serve(d)
	s.console.doors[kind] = c
	return c.address, nil
}

// loopback listens where only this machine can connect, because the traffic is not encrypted, and at every address that
// a browser may find under the console's name: who has one of them alone is the console for it.
func loopback(listen string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(listen)
	if err != nil {
		return nil, err
	}
	if a := at.Addr(); a != netip.AddrFrom4([4]byte{127, 0, 0, 1}) && a != netip.IPv6Loopback() {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "it is not the loopback address, 127.0.0.1 or [::1]")
	}
	four, six, err := hostport.Loopback(int(at.Port()))
	switch {
	case err != nil:
		return nil, err
	case six == nil:
		return four, nil
	}
	return newTwins(four, six), nil
}

// consoleName is where a console is served, as browsers are told: by a name that it has for itself alone. Browsers send
// cookies to every port of a name: a page that an agent publishes at localhost must not get this one's. Browsers look no
// name below localhost up anywhere.
func consoleName(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String()) // a listener's own address is well-formed
	return passkey.ConsoleName + ":" + port
}

// called reports whether a console is called by its name: what leads here by any
// other is a name that somebody else gave this machine (DNS rebinding), or one that is shared with other ports.
func called(name string) func(string) bool {
	short, _ := strings.CutSuffix(name, ":80") // browsers leave it off
	return func(host string) bool { return host == name || host == short }
}

// ConsoleAddress is where the console is served on this machine; empty when it is not.
func (s *Server) ConsoleAddress() string {
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	if c := s.console.doors[""]; c != nil {
		return c.address
	}
	return ""
}

// pages is the content that a browser is served: a few pages, and the services to look with.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	files, _ := fs.Sub(pages, "page") // a valid constant path: it cannot fail
	built := web.Files()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /login", page(files, "login.html"))
	mux.HandleFunc("POST /login", s.signIn)
	mux.HandleFunc("POST /logout", s.signOut)
	mux.HandleFunc("GET /{$}", s.home(built, files))
	for _, name := range []string{"page.css", "login.js"} {
		mux.HandleFunc("GET /page/"+name, page(files, name))
	}
	for _, name := range web.Names() { // one by one: nothing else is there
		mux.HandleFunc("GET /"+name, page(built, name))
	}
	for _, name := range s.names {
		mux.Handle("/"+name+"/", s.chain)
	}
	return mux
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".webmanifest": "application/manifest+json",
}

// page serves one file. Its kind does not hang on what this machine thinks that endings mean.
func page(files fs.FS, name string) http.HandlerFunc {
	kind := kinds[path.Ext(name)]
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		raw, err := fs.ReadFile(files, name) // not ServeFileFS, which leads index.html elsewhere
		if err != nil {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(raw))
	}
}

// home is the console, or how to sign in. Whom another page led here, one at another port of this name too, sees neither:
// that page could have them click on what they did not mean to.
func (s *Server) home(built, files fs.FS) http.HandlerFunc {
	known, stranger, led := page(built, "index.html"), page(files, "stranger.html"), page(files, "elsewhere.html")
	return func(w http.ResponseWriter, r *http.Request) {
		if !ownWay(r.Header.Values("Sec-Fetch-Site")) {
			led(w, r)
			return
		}
		if _, ok := s.console.session(r, s.Now()); !ok {
			stranger(w, r)
			return
		}
		known(w, r)
	}
}

// ownWay reports whether a person came by themselves or by the console's own pages, as their browser says. One that says
// nothing does not count this as a secure context, and so has at most a key that denies.
func ownWay(site []string) bool {
	return len(site) == 0 || len(site) == 1 && (site[0] == "none" || site[0] == "same-origin")
}

// signIn takes the code from the form that /login shows, and gives the browser its cookie. The link itself uses
// nothing up: anything may follow it ahead of the person. A good code is taken however many bad ones came before
// it: it has 256 bits and is good once, so nothing is gained by guessing, and everybody on this machine comes from
// one address.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "malformed_input: this is not the form that the page sends", http.StatusBadRequest)
		return
	}
	page, ok := pageSecret(r.PostForm.Get("page"))
	if !ok {
		http.Error(w, "malformed_input: this is not the form that the page sends", http.StatusBadRequest)
		return
	}
	value, t, ok := s.redeem(r.PostForm.Get("code"), page, doorOf(r.Context()))
	if !ok {
		s.wrongCode(w, address)
		return
	}
	opened := palyra.ConsoleOpened{Principal: t.caller.Principal, Address: address, ExpiresAt: t.ends.UTC()}
	if _, err := s.Journal.Record(r.Context(), opened); err != nil { // an unknown person gets no session
		s.Log.Error("a sign-in could not be journaled", "err", err)
		s.console.end(t.caller.CredentialID)
		http.Error(w, "internal: the sign-in could not be recorded", http.StatusServiceUnavailable)
		return
	}
	setCookie(w, r, value, int(sessionLife/time.Second))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	name := cookieName(doorOf(r.Context()))
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: age, Secure: name != plainCookie,
	})
}

// wrongCode answers a code that is not good. Those who try many hear when they may
// come again, and are on record as a flood.
func (s *Server) wrongCode(w http.ResponseWriter, address string) {
	if s.Limits != nil {
		done, after, ok := s.Limits.Try(address)
		if !ok {
			s.alarm.flood("console", palyra.ReasonRateLimited)
			w.Header().Set("Retry-After", seconds(after))
			http.Error(w, "rate_limited: too many wrong codes; run 'palyra console' for a new link, which is taken at once",
				http.StatusTooManyRequests)
			return
		}
		done(false)
	}
	s.alarm.raise(palyra.AlertRaised{Reason: palyra.ReasonLoginFailed, PeerUID: -1, Method: "console login"})
	http.Error(w, "login_failed: the link was used before, is too old, or is not one; run 'palyra console' for another", http.StatusForbidden)
}

// signOut ends the browser's session, with whatever it has open.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	if t, ok := s.console.session(r, s.Now()); ok {
		s.EndCredential(t.caller.CredentialID)
	}
	setCookie(w, r, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
