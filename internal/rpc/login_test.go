package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/limit"
	"palyra/internal/rpc"
)

func (w *world) looks(cookie string) palyra.Reason {
	w.t.Helper()
	m := find(w.t, "GetStatus")
	why, err := w.sendTo(w.browser(), "http://"+w.console, m, m.request(w.t), cookieHead(cookie))
	w.must(err)
	return why
}

// A link signs one browser in, once, within two minutes; merely following it uses
// nothing up.
func TestLoginCodeIsUsedOnce(t *testing.T) {
	w := newWorld(t, nil)
	code := w.code(w.owner, "user:alice", palyra.RoleOwner)
	for range 3 {
		if res, _ := w.browse(http.MethodGet, "/login?code="+code, "", "", nil); res.StatusCode != 200 || len(res.Cookies()) > 0 {
			t.Fatalf("%d %v", res.StatusCode, res.Cookies())
		}
	}
	if res, _ := w.browse(http.MethodPost, "/login?page="+pageSecret+"&code="+code, "", "", nil); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a code in the address signs in: %d", res.StatusCode)
	}
	res := w.signIn(code)
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" || len(res.Cookies()) != 1 {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	c := res.Cookies()[0]
	if c.Name != "palyra_session" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
		c.MaxAge != 12*3600 || len(c.Value) != 43 {
		t.Errorf("%+v", c)
	}
	if why := w.looks(c.Value); why != let {
		t.Errorf("%q", why)
	}
	if res := w.signIn(code); res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 {
		t.Errorf("again: %d", res.StatusCode)
	}
	late := w.code(w.owner, "user:alice", palyra.RoleOwner)
	w.shift.Store(int64(2*time.Minute + time.Second))
	if res := w.signIn(late); res.StatusCode != http.StatusForbidden {
		t.Errorf("an old code: %d", res.StatusCode)
	}
	w.shift.Store(int64(12*time.Hour + time.Minute))
	if why := w.looks(c.Value); why != palyra.ReasonNoCredential {
		t.Errorf("after 12 hours: %q", why)
	}
	var opened, failed int
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	for _, e := range w.journal.events {
		switch e := e.(type) {
		case palyra.ConsoleOpened:
			opened++
			if e.Principal != "user:alice" || e.Address != "127.0.0.1" {
				t.Errorf("%+v", e)
			}
		case palyra.AlertRaised:
			failed++
		}
	}
	if opened != 1 || failed == 0 {
		t.Errorf("%d sign-ins and %d failures on record", opened, failed)
	}
}

// Of a hundred browsers with one code one is signed in.
func TestLoginRace(t *testing.T) {
	w := newWorld(t, nil)
	code := w.code(w.owner, "user:alice", palyra.RoleOwner)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	begin := make(chan struct{})
	for range 100 {
		wg.Go(func() {
			<-begin
			res, err := w.browser().PostForm("http://"+w.console+"/login", url.Values{"code": {code}, "page": {pageSecret}})
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			got[res.StatusCode]++
		})
	}
	close(begin)
	wg.Wait()
	if got[http.StatusSeeOther] != 1 || got[http.StatusForbidden] != 99 {
		t.Errorf("%v", got)
	}
}

// Guessing backs off and locks, and says for how long.
func TestLoginFlood(t *testing.T) {
	at := time.Now()
	var mu sync.Mutex
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
	w := newWorld(t, limit.New(limit.Config{Logins: 5, Now: now}))
	tried, longest := 0, 0
	for range 200 {
		res := w.signIn("guess")
		if res.StatusCode == http.StatusForbidden {
			tried++
			continue
		}
		wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if res.StatusCode != http.StatusTooManyRequests || err != nil || wait < 1 {
			t.Fatalf("%d %v", res.StatusCode, res.Header)
		}
		if longest = max(longest, wait); wait >= 15*60 {
			break
		}
		mu.Lock()
		at = at.Add(time.Duration(wait) * time.Second)
		mu.Unlock()
	}
	if tried != 20 || longest != 15*60 {
		t.Errorf("%d tries, and the longest wait is %d s", tried, longest)
	}
	if res := w.signIn("guess"); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("locked, it takes guesses: %d", res.StatusCode)
	} else if said, err := io.ReadAll(res.Body); err != nil ||
		!strings.Contains(string(said), "run 'palyra console' for a new link, which is taken at once") {
		t.Errorf("%s %v", said, err)
	}
	if res := w.signIn(w.code(w.owner, "user:alice", palyra.RoleOwner)); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the owner is locked out by others' guesses: %d", res.StatusCode)
	}
}

// Whatever another user of this machine does at the console's port, wrong codes by
// the thousand or connections that only stand there, the owner signs in and looks.
func TestNobodyKeepsTheOwnerOutOfTheConsole(t *testing.T) {
	w := newWorld(t, limit.New(limit.Config{Logins: 5}))
	for range 1000 {
		if res := w.signIn("guess"); res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusTooManyRequests {
			t.Fatal(res.Status)
		}
	}
	cookie := w.cookie(w.owner, "user:alice", palyra.RoleOwner)
	mine := &http.Client{Transport: &http.Transport{DialContext: w.dialConsole}}
	t.Cleanup(mine.CloseIdleConnections)
	look := func() (reused bool) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "http://"+w.console+"/", nil)
		w.must(err)
		req.Header = cookieHead(cookie)
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}
		res, err := mine.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		w.must(err)
		_, err = io.Copy(io.Discard, res.Body)
		w.must(errors.Join(err, res.Body.Close()))
		return reused
	}
	look()
	for range 600 { // more than there are places
		c, err := net.Dial("tcp", w.consoleAt)
		w.must(err)
		t.Cleanup(func() { _ = c.Close() })
	}
	if !look() {
		t.Error("a browser that is signed in lost its connection")
	}
	if again := w.cookie(w.owner, "user:alice", palyra.RoleOwner); w.looks(again) != let {
		t.Error("the owner cannot sign in")
	}
}

// Codes and sessions are bounded, and end with the credential they came with.
func TestCodesAndSessionsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	caller := rpc.Caller{Principal: "user:alice", Role: palyra.RoleOwner, Credential: rpc.ByOperatorSocket, CredentialID: "key:" + w.owner.id}
	var links []string
	var full error
	for range 100 {
		link, _, err := w.server.Login(t.Context(), caller, "")
		if err != nil {
			full = err
			break
		}
		links = append(links, link)
	}
	if e := palyra.AsError(full); len(links) != 32 || e.Reason != palyra.ReasonRateLimited || e.After <= 0 {
		t.Errorf("%d codes, then %v", len(links), full)
	}
	if !strings.HasPrefix(links[0], "http://"+w.console+"/login?code=") {
		t.Error(links[0])
	}
	w.server.EndCredential("key:" + w.owner.id)
	u, _ := url.Parse(links[0])
	if res := w.signIn(u.Query().Get("code")); res.StatusCode != http.StatusForbidden {
		t.Errorf("a code of an ended credential: %d", res.StatusCode)
	}
	signedIn := 0
	for range 300 {
		if w.signIn(w.code(w.owner, "user:alice", palyra.RoleOwner)).StatusCode == http.StatusSeeOther {
			signedIn++
		}
	}
	if signedIn != 256 {
		t.Errorf("%d sessions", signedIn)
	}
}

// Only a person signs a browser in, and nobody whom no record could name.
func TestWhoMakesLinks(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]rpc.Caller{
		"nobody":        {},
		"an agent":      {Principal: "agent:ci", Role: palyra.RoleAgent, Credential: rpc.ByAgentSocket, CredentialID: "agent:ci"},
		"a token":       {Principal: "user:alice", Role: palyra.RoleOwner, Credential: rpc.ByToken, CredentialID: "token:t"},
		"a browser":     {Principal: "user:alice", Role: palyra.RoleOwner, Credential: rpc.ByConsole, CredentialID: "console:c"},
		"no credential": {Principal: "user:alice", Role: palyra.RoleOwner, Credential: rpc.ByDevice},
	} {
		if _, _, err := w.server.Login(t.Context(), c, ""); palyra.AsError(err).Reason != palyra.ReasonPermission {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.journal.mu.Lock()
	w.journal.fails = errors.New("disk full")
	w.journal.mu.Unlock()
	if res := w.signIn(w.code(w.owner, "user:alice", palyra.RoleOwner)); res.StatusCode != http.StatusServiceUnavailable ||
		len(res.Cookies()) > 0 {
		t.Errorf("a sign-in that cannot be recorded: %d", res.StatusCode)
	}
}

// The console is for this machine alone.
func TestConsoleIsLoopback(t *testing.T) {
	b := newBench(t, rpc.New)
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "localhost:0", "", "127.0.0.1", "127.0.0.2:0"} {
		if a, err := b.server.OpenConsole(listen); err == nil {
			t.Errorf("%q: served at %s", listen, a)
		}
	}
	one, err := b.server.OpenConsole("127.0.0.1:0")
	b.must(err)
	if two, err := b.server.OpenConsole("127.0.0.1:0"); err != nil || two != one {
		t.Errorf("%s %s %v", one, two, err)
	}
	if fmt.Sprint(b.server.ConsoleAddress()) != one {
		t.Error(b.server.ConsoleAddress())
	}
}

// Browsers find the console's name at ::1 first: the console is there too, or, where somebody else is, nowhere.
func TestConsoleIsAtBothAddresses(t *testing.T) {
	held, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("UNPROVEN HERE: both addresses: this machine has no ::1")
	}
	t.Cleanup(func() { _ = held.Close() })
	_, port, _ := net.SplitHostPort(held.Addr().String())
	b := newBench(t, rpc.New)
	for _, listen := range []string{"127.0.0.1:" + port, "[::1]:" + port} {
		if a, err := b.server.OpenConsole(listen); !errors.Is(err, syscall.EADDRINUSE) || a != "" || b.server.ConsoleAddress() != "" {
			t.Errorf("somebody else is at ::1, and it is served: %q %v", a, err)
		}
	}
	if l, err := net.Listen("tcp4", "127.0.0.1:"+port); err != nil {
		t.Errorf("the half of it was kept: %v", err)
	} else {
		_ = l.Close()
	}
	at, err := b.server.OpenConsole("127.0.0.1:0")
	b.must(err)
	_, port, _ = net.SplitHostPort(at)
	for _, place := range []string{"127.0.0.1:" + port, "[::1]:" + port} {
		tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", place)
		}}
		res, err := (&http.Client{Transport: tr}).Get("http://" + at + "/healthz")
		b.must(err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", place, res.Status)
		}
		if l, err := net.Listen("tcp", place); err == nil {
			_ = l.Close()
			t.Errorf("%s is free for others", place)
		}
	}
}
