package egress

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"palyra"
)

// gate is where the direct door is that stands at an address of the run's own
// network; a client sees it under the address from.
func (b *bench) gate(at, from string) string {
	b.Helper()
	for i, d := range b.doors {
		if d.kind == directDoor && d.Addr.String() == at {
			return netip.AddrPortFrom(netip.MustParseAddr(from), b.at[i].(*net.TCPAddr).AddrPort().Port()).String()
		}
	}
	b.Fatalf("no door at %s in %v", at, b.Doors())
	return ""
}

const bye = " HTTP/1.1\r\nConnection: close\r\nHost: "

// What is granted on the host's loopback is found at the same place of the run's
// own, by programs that never ask a proxy for it.
func TestGrantedLoopbackHasADoor(t *testing.T) {
	g, w := newGuard(t, Config{PrivateRanges: []netip.Prefix{}})
	srv, _ := site(t)
	w.at(7000, srv.Listener.Addr())
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "127.0.0.1:7000", "127.0.0.1:80", "10.0.0.1:7000")
	for at, host := range map[string]string{"127.0.0.1:7000": "127.0.0.1:7000", "0.0.0.0:80": "127.0.0.1"} {
		if got := talk(t, dialTo(t, b.gate(at, "127.0.0.1")), "GET /x"+bye+host+"\r\n\r\n"); !strings.Contains(got, "host="+host+" path=/x") {
			t.Errorf("%s: %q", at, got)
		}
	}
	if c, err := net.Dial("tcp", b.gate("0.0.0.0:80", "127.0.0.2")); err == nil { // it is reset, now or soon
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("an address that is not granted")
		}
		_ = c.Close()
	}
	if n := len(b.Doors()); n != 3+2+1 { // proxy and names; 80 and 443; 127.0.0.1:7000
		t.Error(b.Doors())
	}
	s, err := g.Open(t.Context(), nil, planFor("[::1]:80"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d := s.Doors(); len(d) != 3+2+1 || d[5].Addr != netip.MustParseAddrPort("[::1]:80") {
		t.Error(d)
	}
	if f := b.flow("127.0.0.1", palyra.FlowAllowed); f.Door != doorDirect || f.Address != "127.0.0.1" || f.In == 0 {
		t.Errorf("%+v", f)
	}
	if f := b.flow("127.0.0.2", palyra.FlowDenied); f.Port != 80 {
		t.Errorf("%+v", f)
	}
}

// Names of the machine itself are refused before anybody is asked, with what to
// do instead.
func TestLocalNamesAreRefusedEarly(t *testing.T) {
	p := &people{say: make(chan Answer, 1)}
	g, w := newGuard(t, Config{PrivateRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Ask: p.ask})
	for _, s := range []string{"localhost:7000", "LocalHost.:7000", "a.localhost:7000", "*.a.localhost:7000"} {
		_, err := g.Check([]string{"good.example:1", s})
		if e := palyra.AsError(err); e.Reason != palyra.ReasonEgressDenied || !strings.Contains(e.Remedy, "127.0.0.1:7000") {
			t.Errorf("%s: %v, %s", s, err, e.Remedy)
		}
	}
	if _, err := g.Check([]string{"localhost.example:7000", "notlocalhost:7000"}); err != nil {
		t.Error(err)
	}
	b := openFor(t, g, w, &palyra.Call{})
	if _, code, body := b.connectTo("localhost:7000"); code != 403 || !strings.Contains(body, "127.0.0.1:7000") {
		t.Error(code, body)
	}
	p.were(t, 0)
	b.untouched()
	b.flow("localhost", palyra.FlowDenied)
}

// Where the operator lets names lead to loopback, local ones do, and no name
// server is asked about them.
func TestLocalNamesWhereLoopbackIsOpen(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, _ := site(t)
	w.at(7000, srv.Listener.Addr())
	b := open(t, g, w, "localhost:7000", "a.localhost:7000")
	const ask = "GET /x" + bye + "localhost:7000\r\n\r\n"
	straight := talk(t, dialTo(t, b.gate("127.0.0.1:7000", "127.0.0.1")), strings.ReplaceAll(ask, "localhost", "a.localhost"))
	c, code, body := b.connectTo("localhost:7000")
	if code != 200 {
		t.Fatal(code, body)
	}
	for host, got := range map[string]string{"localhost:7000": talk(t, c, ask), "a.localhost:7000": straight} {
		if !strings.Contains(got, "host="+host+" path=/x") {
			t.Errorf("%q", got)
		}
	}
	if lookups, _ := w.seen(); len(lookups) > 0 {
		t.Error(lookups)
	}
	if f := b.flow("localhost", palyra.FlowAllowed); f.Address != "127.0.0.1" {
		t.Errorf("%+v", f)
	}
}

// The hosts file's IPv4 addresses are IPv4 addresses, and are shown as such.
func TestAddressesAreNotMapped(t *testing.T) {
	list, err := newResolver("", &net.Dialer{}, time.Now).lookup(t.Context(), "ip", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Is4In6() {
			t.Error(a)
		}
	}
	g, w := newGuard(t, Config{})
	w.name("mapped.example", "::ffff:127.0.0.1")
	if _, err := g.addresses(t.Context(), named("mapped.example", 1), false); err == nil || !strings.Contains(err.Error(), " 127.0.0.1,") ||
		strings.Contains(err.Error(), "ffff") {
		t.Error(err)
	}
}

// A program is told what came of the question about its host.
func TestTheNoIsPassedOn(t *testing.T) {
	refuse := func(reason palyra.Reason, text string) error {
		return palyra.Errorf(palyra.Denied, reason, "%s", text).WithRemedy("talk to them")
	}
	for name, c := range map[string]struct {
		err        error
		text, help string
	}{
		"denied": {
			refuse(palyra.ReasonEgressDenied, "other.example:443 was not allowed: user:ann denied the call: not today"),
			"user:ann denied the call: not today", "talk to them",
		},
		"not asked": {
			refuse(palyra.ReasonTooManyPending, "too many questions are open"),
			"other.example:443 was not allowed: too many questions are open", "talk to them",
		},
		"inside": {
			palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "disk /secret"),
			"other.example:443 was not allowed: nobody could be asked", "",
		},
		"plain": {context.DeadlineExceeded, "other.example:443 was not allowed: nobody could be asked", ""},
	} {
		g, w := newGuard(t, Config{Ask: func(context.Context, *palyra.Call, string, int) (Answer, error) { return Answer{}, c.err }})
		b := openFor(t, g, w, &palyra.Call{})
		_, code, body := b.connectTo("other.example:443")
		if code != 403 || !strings.Contains(body, c.text) || !strings.Contains(body, c.help) || strings.Contains(body, "egress list") ||
			strings.Contains(body, "secret") ||
			!strings.Contains(body, string(palyra.ReasonEgressDenied)) {
			t.Errorf("%s: %d %s", name, code, body)
		}
		b.flow("other.example", palyra.FlowDenied)
	}
}

// So is one that waits when the run ends: nobody has said no.
func TestNoAnswerIsNotANo(t *testing.T) {
	p := &people{say: make(chan Answer)}
	g, w := newGuard(t, Config{Ask: p.ask})
	b := openFor(t, g, w, &palyra.Call{})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.DialContext(ctx, "tcp", "other.example:443")
		failed <- err
	}()
	cancel()
	if err := <-failed; palyra.AsError(err).Reason != palyra.ReasonEgressDenied || !strings.Contains(err.Error(), "nobody answered in time") {
		t.Error(err)
	}
	q, _ := b.question(target{host{name: "other.example"}, 443})
	b.end()
	<-q.done
	if q.err == nil || !strings.Contains(q.err.Error(), "nobody answered in time") {
		t.Error(q.err)
	}
}

// Neither is one that was taken back.
func TestTakenBackIsSaid(t *testing.T) {
	now := time.Now()
	g, w := newGuard(t, Config{
		Ask: func(context.Context, *palyra.Call, string, int) (Answer, error) { return Answer{Until: now}, nil },
		Now: func() time.Time { return now },
	})
	b := openFor(t, g, w, &palyra.Call{})
	if _, code, body := b.connectTo("other.example:443"); code != 403 || !strings.Contains(body, "is no longer allowed") {
		t.Error(code, body)
	}
}
