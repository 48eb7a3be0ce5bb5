package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cell"
)

func planFor(hosts ...string) palyra.Plan { return palyra.Plan{Egress: hosts} }

func TestDoors(t *testing.T) {
	g, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	doors := func(hosts ...string) string {
		s, err := g.Open(t.Context(), nil, planFor(hosts...))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var out []string
		for _, d := range s.Doors() {
			n := "tcp "
			if d.UDP {
				n = "udp "
			}
			out = append(out, n+d.Addr.String())
		}
		return strings.Join(out, ", ")
	}
	const always = "tcp 198.18.0.1:3128, udp 198.18.0.1:53, tcp 198.18.0.1:53, "
	for _, tc := range []struct {
		hosts []string
		want  string
	}{
		{nil, always + "tcp 0.0.0.0:80, tcp 0.0.0.0:443"},
		{[]string{"b.example:443", "a.example:80", "1.2.3.4:22"}, always + "tcp 0.0.0.0:80, tcp 0.0.0.0:443"},
		{[]string{"b.example:22", "a.example:22", "*.c.example:25"}, always + "tcp 0.0.0.0:22, tcp 0.0.0.0:25, tcp 0.0.0.0:80, tcp 0.0.0.0:443"},
		{
			[]string{"b.example:8080", "a.example:8080", "b.example:3128", "a.example:53", "*.c.example:9000"},
			always + "tcp 0.0.0.0:80, tcp 0.0.0.0:443, tcp 198.18.0.16:53, tcp 198.18.0.16:8080, tcp 198.18.0.17:3128, tcp 198.18.0.17:8080",
		},
	} {
		if got := doors(tc.hosts...); got != tc.want {
			t.Errorf("%v:\n%s\n%s", tc.hosts, got, tc.want)
		}
		slices.Reverse(tc.hosts)
		if got := doors(append(tc.hosts, tc.hosts...)...); got != tc.want {
			t.Errorf("%v in another order: %s", tc.hosts, got)
		}
	}
	var many []string
	for i := range cell.MaxDoors {
		many = append(many, fmt.Sprintf("a.example:%d", 2000+i))
	}
	if _, err := g.Open(t.Context(), nil, planFor(many...)); palyra.CodeOf(err) != palyra.Exhausted {
		t.Error(err)
	}
}

func TestEnv(t *testing.T) {
	g, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]bool{}
	for range 3 {
		s, err := g.Open(t.Context(), nil, planFor())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		tokens[s.token] = true
		env := strings.Join(s.Env(), "\n")
		for _, want := range []string{
			"HTTP_PROXY=http://palyra:" + s.token + "@198.18.0.1:3128", "https_proxy=http://palyra:" + s.token + "@198.18.0.1:3128",
			"ALL_PROXY=http://palyra:" + s.token + "@198.18.0.1:3128", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1",
		} {
			if !strings.Contains(env, want) {
				t.Errorf("%s is not in %s", want, env)
			}
		}
	}
	if len(tokens) != 3 {
		t.Error("tokens repeat")
	}
}

func TestServeTakesTheSocketsInEveryCase(t *testing.T) {
	g, w := newGuard(t, Config{})
	s, err := g.Open(t.Context(), nil, planFor())
	if err != nil {
		t.Fatal(err)
	}
	_ = w
	file := func() *os.File {
		f, _ := socket(t, cell.Listener{Addr: netip.MustParseAddrPort("127.18.0.1:1")})
		return f
	}
	wrong := []*os.File{file(), file(), file(), file(), file()} // the second should be UDP
	if err := s.Serve(wrong); err == nil {
		t.Error("a TCP socket was taken for a UDP one")
	}
	few := []*os.File{file()}
	if err := s.Serve(few); err == nil {
		t.Error("too few sockets were taken")
	}
	for _, f := range append(wrong, few...) {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Error("a socket was left open")
		}
	}
	s.Close()
}

// Where only some doors can be opened, the others are not missed.
func TestServeWithoutSomeDoors(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	s, err := g.Open(t.Context(), nil, planFor("good.example:80"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	files := make([]*os.File, len(s.Doors()))
	f, at := socket(t, s.Doors()[0])
	files[0] = f
	if err := s.Serve(files); err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, Session: s, w: w, at: []net.Addr{at}}
	if code, body := get(t, b.client(), "http://good.example/"); code != 200 {
		t.Error(code, body)
	}
}

// slowly is a connection whose writes are done, and return some time after it is
// closed.
type slowly struct {
	net.Conn
	began, closed chan struct{}
}

func (c slowly) Write(b []byte) (int, error) {
	close(c.began)
	<-c.closed
	<-time.After(50 * time.Millisecond)
	return len(b), nil
}

func (c slowly) Close() error { close(c.closed); return nil }

// What a tool has sent when the session is closed has been counted.
func TestCloseMissesNoByte(t *testing.T) {
	g, _ := newGuard(t, Config{})
	s, err := g.Open(t.Context(), nil, planFor("good.example:7000"))
	if err != nil {
		t.Fatal(err)
	}
	inner := slowly{began: make(chan struct{}), closed: make(chan struct{})}
	s.track(inner, nil)
	c := &counted{Conn: inner, session: s, flow: s.ledger.start(doorFetch, permitFor("good.example", 7000), "127.0.0.1")}
	var writer sync.WaitGroup
	writer.Go(func() { _, _ = io.WriteString(c, "some bytes") })
	<-inner.began
	if flows, _ := s.Close(); flows[0].Out != 10 {
		t.Errorf("%+v", flows)
	}
	writer.Wait()
	if _, err := c.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
		t.Error("a tool writes on:", err)
	}
}

func TestModes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		c       Config
		reaches map[string]int
	}{
		{"strict", Config{}, map[string]int{"127.0.0.1:7000": 403, "good.example:7000": 403, "public.example:7000": 403}},
		{
			"preflight",
			Config{Mode: Preflight, PrivateRanges: []netip.Prefix{}},
			map[string]int{"127.0.0.1:7000": 403, "good.example:7000": 403, "gone.example:1": 502},
		},
		{"none", Config{Mode: None, PrivateRanges: []netip.Prefix{}}, map[string]int{"127.0.0.1:7000": 403, "good.example:7000": 403}},
		{
			"none, with the host's",
			Config{Mode: None, HostNetwork: true, PrivateRanges: []netip.Prefix{}},
			map[string]int{"127.0.0.1:7000": 200, "good.example:7000": 200, "0.0.0.0:7000": 403},
		},
		{"none, with a range", Config{Mode: None}, map[string]int{"127.0.0.1:7000": 200, "good.example:7000": 200, "10.0.0.1:7000": 403}},
	} {
		g, w := newGuard(t, tc.c)
		w.at(7000, echo(t, ""))
		b := open(t, g, w)
		for to, want := range tc.reaches {
			c, code, body := b.connectTo(to)
			if code != want {
				t.Errorf("%s, %s: %d %s", tc.name, to, code, body)
			}
			_ = c.Close()
		}
	}
}

func TestPreflight(t *testing.T) {
	g, w := newGuard(t, Config{Mode: Preflight})
	w.name("private.example", "10.0.0.1")
	for host, reason := range map[string]palyra.Reason{
		"good.example:443": "", "*.good.example:443": "", "10.0.0.1:80": "", "gone.example:443": palyra.ReasonNotFound,
		"private.example:443": palyra.ReasonEgressDenied,
		"nonsense":            palyra.ReasonMalformedInput,
	} {
		err := g.Preflight(t.Context(), []string{host})
		if (err == nil) != (reason == "") || err != nil && palyra.AsError(err).Reason != reason {
			t.Errorf("%s: %v", host, err)
		}
	}
	strict, sw := newGuard(t, Config{})
	if err := strict.Preflight(t.Context(), []string{"gone.example:443"}); err != nil {
		t.Error(err)
	}
	if lookups, _ := sw.seen(); len(lookups) > 0 {
		t.Error("strict looks nothing up ahead")
	}
}

func TestQuestions(t *testing.T) {
	var asked atomic.Int64
	answer := make(chan error)
	c := &palyra.Call{ID: "call"}
	g, w := newGuard(t, Config{Ask: func(ctx context.Context, got *palyra.Call, host string, port int) (Answer, error) {
		asked.Add(1)
		if got != c || host != "other.example" || port != 7000 {
			t.Errorf("%v %s %d", got, host, port)
		}
		select {
		case err := <-answer:
			return Answer{}, err
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
	}})
	w.at(7000, echo(t, ""))
	b := openFor(t, g, w, c, "good.example:443")
	codes := make(chan int)
	for range 4 { // they all wait for the one answer
		go func() {
			c, code, _ := b.connectTo("other.example:7000")
			_ = c.Close()
			codes <- code
		}()
	}
	answer <- nil
	for range 4 {
		if code := <-codes; code != 200 {
			t.Error(code)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d questions", n)
	}
	b.flow("other.example", palyra.FlowAllowed)
}

func TestAnAnswerIsKept(t *testing.T) {
	var asked atomic.Int64
	g, w := newGuard(t, Config{Allowed: []string{"*.example"}, Ask: func(context.Context, *palyra.Call, string, int) (Answer, error) {
		asked.Add(1)
		return Answer{}, errors.New("no")
	}})
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	for range 2 {
		if _, code, _ := b.connectTo("not-allowed.test:443"); code != 403 || asked.Load()%maxTargets != 0 {
			t.Error("asked for what the operator does not allow")
		}
		for i := range maxTargets + 4 {
			if _, code, _ := b.connectTo(fmt.Sprintf("h%d.example:443", i)); code != 403 {
				t.Error(code)
			}
		}
	}
	if n := asked.Load(); n != maxTargets {
		t.Errorf("%d questions", n)
	}
	b.untouched()
	without := open(t, g, w, "good.example:443")
	if _, code, _ := without.connectTo("h.example:443"); code != 403 || asked.Load() != maxTargets {
		t.Error("asked without a call")
	}
}

func TestCloseEndsAQuestion(t *testing.T) {
	waits := make(chan struct{})
	g, w := newGuard(t, Config{Ask: func(ctx context.Context, _ *palyra.Call, _ string, _ int) (Answer, error) {
		close(waits)
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}})
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	c := b.proxyConn()
	fmt.Fprintf(c, "CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n%s\r\n", b.authorization())
	<-waits
	b.flow("other.example", palyra.FlowDenied)
}

func TestCloseEndsEverything(t *testing.T) {
	g, w := newGuard(t, Config{})
	w.at(7000, echo(t, ""))
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "good.example:7000", "good.example:80")
	conns := []*net.TCPConn{b.proxyConn()}
	for _, way := range ways {
		c := way(b, "good.example", 7000)
		_, _ = io.WriteString(c, "ping pong\n")
		if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	hc := b.client()
	if code, _ := get(t, hc, "http://good.example/"); code != 200 {
		t.Fatal(code)
	}
	inner, err := b.DialContext(t.Context(), "tcp", "good.example:7000")
	if err != nil {
		t.Fatal(err)
	}
	flows := b.end()
	for _, c := range conns {
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
			t.Error("a connection lives on")
		}
	}
	if _, err := inner.Write([]byte("x")); err == nil {
		t.Error("a tool's connection lives on")
	}
	_ = inner.Close()
	if code, _ := get(t, hc, "http://good.example/"); code != 0 {
		t.Error("the proxy lives on")
	}
	if _, err := b.DialContext(t.Context(), "tcp", "good.example:7000"); palyra.AsError(err).Reason != palyra.ReasonRunEnded {
		t.Error(err)
	}
	for _, f := range flows {
		if f.Port == 7000 && f.Door != doorFetch && (f.In != 10 || f.Out != 10) {
			t.Errorf("%+v", f)
		}
	}
	if again, _ := b.Close(); len(again) != len(flows) {
		t.Error("the flows are gone")
	}
}

func TestDialContext(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, ca := site(t, "good.example")
	w.at(443, srv.Listener.Addr())
	b := open(t, g, w, "good.example:443")
	tr := &http.Transport{DialContext: b.DialContext, TLSClientConfig: &tls.Config{RootCAs: ca.pool}}
	defer tr.CloseIdleConnections()
	if code, body := get(t, &http.Client{Transport: tr}, "https://good.example/x"); code != 200 || !strings.Contains(body, "path=/x") {
		t.Error(code, body)
	}
	for addr, network := range map[string]string{
		"evil.example:443": "tcp", "good.example:80": "tcp4", "good.example:443": "udp",
		"good.example": "tcp", "127.0.0.1:443": "tcp6",
	} {
		if _, err := b.DialContext(t.Context(), network, addr); err == nil || palyra.AsError(err).Reason == palyra.ReasonInternal {
			t.Errorf("%s %s: %v", network, addr, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.DialContext(ctx, "tcp", "good.example:443"); err == nil {
		t.Error("a cancelled dial")
	}
	if f := b.flow("good.example", palyra.FlowAllowed); f.Door != doorFetch || f.In == 0 || f.Out == 0 {
		t.Errorf("%+v", f)
	}
}

func TestManyConnections(t *testing.T) {
	g, w := newGuard(t, Config{MaxConns: 8})
	w.at(7000, echo(t, ""))
	b := open(t, g, w, "good.example:7000")
	door := b.door("good.example", 7000)
	var all sync.WaitGroup
	var done atomic.Int64
	for range 200 {
		all.Go(func() {
			c, err := net.Dial("tcp", door)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			_, _ = io.WriteString(c, "x\n")
			if _, err := io.ReadFull(c, make([]byte, 2)); err == nil {
				done.Add(1)
			}
		})
	}
	all.Wait()
	if n := done.Load(); n != 200 {
		t.Errorf("%d of 200 were served", n)
	}
	b.end()
	if g.places.taken != 0 || b.seat.held != 0 || len(g.places.by) != 0 {
		t.Errorf("places are lost: %+v %+v", g.places, b.seat)
	}
}

// Clients that begin and do not go on lose their place.
func TestSlowClients(t *testing.T) {
	g, w := newGuard(t, Config{MaxConns: 4})
	g.times.head, g.times.first = time.Second, time.Second
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "good.example:80")
	door := b.door("good.example", 80)
	for _, say := range []string{"", "\x05", "\x05\x02\x00", "CONNECT good.exam", "GET http://good.example/ HTTP/1.1\r\nHost:"} {
		_, _ = io.WriteString(b.proxyConn(), say)
	}
	for _, say := range []string{"GET / HTTP/1.1\r\nHost: go", "\x16\x03\x01\x01\x00\x01\x00", "\r\n", "GET"} {
		_, _ = io.WriteString(dialTo(t, door), say)
	}
	if code, body := get(t, b.client(), "http://good.example/"); code != 200 {
		t.Error(code, body)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	g, w := newGuard(t, Config{})
	g.times.idle, g.times.look = 100*time.Millisecond, 20*time.Millisecond
	w.at(7000, echo(t, ""))
	b := open(t, g, w, "good.example:7000")
	c := ways[doorDirect](b, "good.example", 7000)
	_, _ = io.WriteString(c, "hello there\n")
	if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it lives on:", err)
	}
	quiet := ways[doorDirect](b, "good.example", 7000)
	if _, err := quiet.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it lives on:", err)
	}
}
