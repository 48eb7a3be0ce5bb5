package rpc

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/passkey"
)

// How long a link to sign in holds, a browser stays signed in, and how many of each there are at once.
const (
	codeLife    = 2 * time.Minute
	sessionLife = 12 * time.Hour
	maxCodes    = 32
	maxSessions = 256
	plainCookie = "palyra_session"
	tlsCookie   = "__Host-palyra_session" // which no other host, and no page without TLS, can set
)

// console is the door for browsers on this machine. A signed-in browser looks; it
// decides nothing, because its cookie goes to every port of this machine.
type console struct {
	mu       sync.Mutex              // guards what follows
	doors    map[string]*consoleDoor // by kind; "": this machine's own
	codes    map[palyra.Digest]ticket
	sessions map[palyra.Digest]ticket
}

// ticket is a code or a session: whose, made with which credential, until when.
type ticket struct {
	caller  Caller
	at      string // the address of the console's door that it is good at
	from    string
	ends    time.Time
	devices []string      // the browser's own keys, as credentials: the session ends with them, too
	page    palyra.Digest // of the secret that the console's own pages keep, and no page of another port
}

// Login makes a code that signs one browser in, once, to look as the caller: by a kind of door, or by the one that the
// browser comes by that asks.
func (s *Server) Login(ctx context.Context, c Caller, kind string) (url string, ends time.Time, err error) {
	if c.Principal == "" || c.CredentialID == "" || c.IsAgent() || c.Credential == ByToken || c.Credential == ByConsole {
		return "", time.Time{}, palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "only a person signs a browser in").
			WithRemedy("run 'palyra console' on the daemon's machine")
	}
	code, digest := secret()
	ends = s.Now().Add(codeLife)
	looks := c.unsigned()
	looks.Credential, looks.PeerUID, looks.Device = ByConsole, -1, palyra.Device{}
	since := s.live.begin()
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		since = r.since
	}
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	door := s.console.doors[kind]
	if at := doorOf(ctx); at != "" {
		door = s.console.doorAt(at)
	}
	switch {
	case door == nil && kind != "":
		return "", time.Time{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "the console has no door %s", palyra.Clip(kind, 32)).
			WithRemedy("set console.https_listen or console.plain_listen, and see 'palyra status'")
	case door == nil:
		return "", time.Time{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "the console is not served").
			WithRemedy("set console.listen, and see 'palyra status'")
	case s.live.ended(c.CredentialID, since): // and what it opened was swept before this was there
		return "", time.Time{}, errEnded
	case !keep(s.console.codes, maxCodes, digest, ticket{caller: looks, at: door.address, from: c.CredentialID, ends: ends}, s.Now()):
		return "", time.Time{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too many links to sign in are open").
			WithRemedy("use one of them, or wait %s", codeLife).WithAfter(codeLife)
	}
	return passkey.ConsoleOrigin(door.address) + "/login?code=" + code, ends.UTC(), nil
}

// doorOf is the address of the console's door that a request came by; empty: it came by another.
func doorOf(ctx context.Context) string {
	p, _ := peerOf(ctx)
	return p.at
}

// doorAt is the door of an address.
func (c *console) doorAt(address string) *consoleDoor {
	for _, d := range c.doors {
		if d.address == address {
			return d
		}
	}
	return nil
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

// PageHeader has the secret that the pages of the console's origin keep. Browsers send the cookie to every port of its
// name; what an origin keeps, which the port is part of, stays there. So the cookie counts with this secret alone.
const PageHeader = "Palyra-Page"

// pageSecret is the digest of a page's secret: 32 bytes in base64url.
func pageSecret(text string) (palyra.Digest, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return palyra.SumBytes([]byte(text)), err == nil && len(raw) == 32 && len(text) == 43
}

// redeem turns a code into a session of a browser whose pages have a secret, once.
func (s *Server) redeem(code string, page palyra.Digest, at string) (cookie string, t ticket, ok bool) {
	digest := palyra.SumBytes([]byte(code))
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	t, ok = s.console.codes[digest] // by digest: the time it takes says nothing
	delete(s.console.codes, digest)
	if !ok || t.at != at || !s.Now().Before(t.ends) {
		return "", ticket{}, false
	}
	cookie, id := secret()
	t.ends = s.Now().Add(sessionLife)
	t.caller.CredentialID, t.page = sessionID(id), page
	return cookie, t, keep(s.console.sessions, maxSessions, id, t, s.Now())
}

// sessionID names a session, and says nothing about its cookie.
func sessionID(id palyra.Digest) string {
	const start, end = len("sha256:"), len("sha256:") + 16
	return "console:" + string(id[start:end])
}

// cookieName is the name of the session's cookie at a door.
func cookieName(at string) string {
	if strings.HasPrefix(at, "https://") {
		return tlsCookie
	}
	return plainCookie
}

// cookie returns the one cookie of a request at a door. Pages of other ports can set more
// under its name: then nobody says whose the request is.
func cookie(h http.Header, at string) (palyra.Digest, bool) {
	all := (&http.Request{Header: h}).CookiesNamed(cookieName(at))
	if len(all) != 1 {
		return "", false
	}
	return palyra.SumBytes([]byte(all[0].Value)), true
}

// session finds the session of a request's cookie.
func (c *console) session(r *http.Request, now time.Time) (ticket, bool) {
	return c.sessionAt(doorOf(r.Context()), r.Header, now)
}

// sessionAt finds the session of a cookie at a door, where it began.
func (c *console) sessionAt(at string, h http.Header, now time.Time) (ticket, bool) {
	id, ok := cookie(h, at)
	if !ok {
		return ticket{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.sessions[id]
	return t, ok && t.at == at && now.Before(t.ends)
}

// shown finds the session of a request that shows its page's secret as well; elsewhere says that only that is missing.
func (c *console) shown(at string, h http.Header, now time.Time) (t ticket, ok, elsewhere bool) {
	t, ok = c.sessionAt(at, h, now)
	all := h.Values(PageHeader)
	if !ok || len(all) != 1 {
		return ticket{}, false, ok
	}
	page, good := pageSecret(all[0])
	if !good || page != t.page { // digests: the time it takes says nothing
		return ticket{}, false, true
	}
	return t, true, false
}

// Paired notes that the browser that makes a request is a device now: its session ends with that.
func Paired(ctx context.Context, d palyra.Device) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok && r.auth != nil && r.caller.Credential == ByConsole {
		r.auth.uses(r, d)
	}
}

// uses notes that the browser of a request has the key of a device.
func (a *auth) uses(r *request, d palyra.Device) {
	session, device := r.caller.CredentialID, "device:"+d.ID
	a.console.note(session, device)
	if a.live.ended(device, r.since) { // and what it had was swept before this was there
		a.EndCredential(session)
	}
}

// note adds a device to a session.
func (c *console) note(session, device string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.sessions {
		if t.caller.CredentialID == session && !slices.Contains(t.devices, device) {
			t.devices = append(slices.Clip(t.devices), device)
			c.sessions[id] = t
		}
	}
}

// end ends the sessions and codes that came with a credential, and returns the sessions' ids.
func (c *console) end(credential string) (ended []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.codes {
		if t.from == credential {
			delete(c.codes, id)
		}
	}
	for id, t := range c.sessions {
		if t.from == credential || t.caller.CredentialID == credential || slices.Contains(t.devices, credential) {
			ended = append(ended, t.caller.CredentialID)
			delete(c.sessions, id)
		}
	}
	return ended
}
