package rpc

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"palyra"
)

//go:embed page
var pages embed.FS

// How long a link to sign in holds, a browser stays signed in, and how many of
// each there are at once.
const (
	codeLife    = 2 * time.Minute
	sessionLife = 12 * time.Hour
	maxCodes    = 32
	maxSessions = 256
	cookieName  = "palyra_session"
	maxForm     = 4 << 10
)

// console is the door for browsers on this machine. A signed-in browser looks; it
// decides nothing, because its cookie goes to every port of this machine.
type console struct {
	mu       sync.Mutex // guards what follows
	address  string
	codes    map[palyra.Digest]ticket
	sessions map[palyra.Digest]ticket
}

// ticket is a code or a session: whose, and until when.
type ticket struct {
	caller Caller
	ends   time.Time
}

// OpenConsole opens the door for browsers and returns its address. It is closed
// when the server stops.
func (s *Server) OpenConsole(listen string) (string, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the console cannot be served at %s: %v", listen, err).
			WithRemedy("set console.listen to a free address (127.0.0.1:0 takes any), or to off").WithCause(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // a listener's own address is well-formed
	names := map[string]bool{"127.0.0.1:" + port: true, "localhost:" + port: true, "[::1]:" + port: true, l.Addr().String(): true}
	d := &door{name: "console", far: true, listener: l, hosts: func(h string) bool { return names[h] }, cross: http.NewCrossOriginProtection()}
	d.server = d.http(d.guard(s.pages(), s, s.bodies), s)
	d.server.Protocols.SetHTTP1(true)
	d.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, peer{uid: -1, console: true})
	}
	s.console.mu.Lock()
	s.console.address, s.console.codes, s.console.sessions = l.Addr().String(), map[palyra.Digest]ticket{}, map[palyra.Digest]ticket{}
	s.console.mu.Unlock()
	s.serve(d)
	return l.Addr().String(), nil
}

// ConsoleAddress is where the console is served; empty when it is not.
func (s *Server) ConsoleAddress() string {
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	return s.console.address
}

// Login makes a code that signs one browser in, once, to look as the caller.
func (s *Server) Login(_ context.Context, c Caller) (url string, ends time.Time, err error) {
	if c.IsAgent() || c.Credential == ByToken || c.Credential == ByConsole {
		return "", time.Time{}, palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "only a person signs a browser in").
			WithRemedy("run 'palyra console' on the daemon's machine")
	}
	code, digest := secret()
	ends = s.Now().Add(codeLife)
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	if s.console.address == "" {
		return "", time.Time{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "the console is not served").
			WithRemedy("set console.listen, and see 'palyra status'")
	}
	looks := c.unsigned()
	looks.Credential, looks.PeerUID = ByConsole, -1
	if !keep(s.console.codes, maxCodes, digest, ticket{looks, ends}, s.Now()) {
		return "", time.Time{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too many links to sign in are open").
			WithRemedy("use one of them, or wait %s", codeLife).WithAfter(codeLife)
	}
	return "http://" + s.console.address + "/login?code=" + code, ends.UTC(), nil
}

// secret returns 256 random bits and what is kept of them.
func secret() (string, palyra.Digest) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails: the runtime aborts instead
	code := base64.RawURLEncoding.EncodeToString(raw[:])
	return code, palyra.SumBytes([]byte(code))
}

// keep adds a ticket where there is room, after those that have ended are gone.
func keep(all map[palyra.Digest]ticket, most int, id palyra.Digest, t ticket, now time.Time) bool {
	for k, old := range all {
		if !now.Before(old.ends) {
			delete(all, k)
		}
	}
	if len(all) >= most {
		return false
	}
	all[id] = t
	return true
}

// redeem turns a code into a session, once.
func (s *Server) redeem(code string) (cookie string, t ticket, ok bool) {
	digest := palyra.SumBytes([]byte(code))
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	t, ok = s.console.codes[digest]
	delete(s.console.codes, digest)
	if !ok || !s.Now().Before(t.ends) {
		return "", ticket{}, false
	}
	cookie, id := secret()
	t.ends = s.Now().Add(sessionLife)
	t.caller.Credential = ByConsole
	return cookie, t, keep(s.console.sessions, maxSessions, id, t, s.Now())
}

// session finds the session of a request's cookie.
func (c *console) session(h http.Header, now time.Time) (ticket, bool) {
	cookie, err := (&http.Request{Header: h}).Cookie(cookieName)
	if err != nil {
		return ticket{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.sessions[palyra.SumBytes([]byte(cookie.Value))] // by digest: the time it takes says nothing
	return t, ok && now.Before(t.ends)
}

// end ends the sessions and codes that came with a credential.
func (c *console) end(credential string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range []map[palyra.Digest]ticket{c.codes, c.sessions} {
		for id, t := range all {
			if t.caller.CredentialID == credential {
				delete(all, id)
			}
		}
	}
}

// pages is what a browser is served: a few pages, and the services to look with.
func (s *Server) pages() http.Handler {
	mux := http.NewServeMux()
	files, _ := fs.Sub(pages, "page") // a valid constant path: it cannot fail
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /login", s.loginPage(files))
	mux.HandleFunc("POST /login", s.signIn)
	mux.HandleFunc("POST /logout", s.signOut)
	mux.Handle("GET /{$}", s.home(files))
	mux.Handle("GET /page/", http.StripPrefix("/page/", http.FileServerFS(files)))
	mux.Handle("/palyra.v1.", http.NotFoundHandler())
	for _, name := range s.names {
		mux.Handle("/"+name+"/", s.chain)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		mux.ServeHTTP(w, r)
	})
}

// loginPage shows a form with the code in it: following a link, which anything may
// do ahead of the person, uses nothing up.
func (s *Server) loginPage(files fs.FS) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "login.html")
	}
}

// home shows the state, or how to sign in.
func (s *Server) home(files fs.FS) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := "home.html"
		if _, ok := s.console.session(r.Header, s.Now()); !ok {
			page = "stranger.html"
		}
		http.ServeFileFS(w, r, files, page)
	}
}

// signIn takes the code from the form and gives the browser its cookie.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	done, after, ok := s.try(address)
	if !ok {
		s.alarm.flood("console", palyra.ReasonRateLimited)
		w.Header().Set("Retry-After", seconds(after))
		http.Error(w, "rate_limited: too many tries to sign in", http.StatusTooManyRequests)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	cookie, t, ok := s.redeem(r.PostFormValue("code"))
	done(ok)
	if !ok {
		s.alarm.raise(palyra.AlertRaised{Reason: palyra.ReasonLoginFailed, PeerUID: -1, Method: "console login"})
		http.Error(w, "login_failed: the link was used before, is too old, or is not one; run 'palyra console' for another", http.StatusForbidden)
		return
	}
	s.record(palyra.ConsoleOpened{Principal: t.caller.Principal, Address: address, ExpiresAt: t.ends.UTC()})
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife.Seconds()),
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// try is the limit on tries; without one every try is taken.
func (s *Server) try(address string) (func(bool), time.Duration, bool) {
	if s.Limits == nil {
		return func(bool) {}, 0, true
	}
	return s.Limits.Try(address)
}

// signOut ends the browser's session.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		s.console.mu.Lock()
		delete(s.console.sessions, palyra.SumBytes([]byte(c.Value)))
		s.console.mu.Unlock()
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
