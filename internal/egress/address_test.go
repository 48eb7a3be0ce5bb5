package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
)

// Whatever a name resolves to, only what was checked is dialled.
func TestNamesThatArePrivate(t *testing.T) {
	g, w := newGuard(t, Config{PrivateRanges: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
	g.own.list = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(9, 9, 9, 9), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for name, addrs := range map[string][]string{
		"loop.example": {"127.0.0.1"}, "meta.example": {"169.254.169.254"}, "lan.example": {"192.168.1.1", "10.0.0.1"},
		"six.example":    {"::1", "fd00::1"},
		"mapped.example": {"::ffff:127.0.0.1"}, "nat.example": {"64:ff9b::7f00:1"}, "mine.example": {"9.9.9.9"}, "zero.example": {"0.0.0.0"},
		"cast.example": {"224.0.0.1"},
	} {
		w.name(name, addrs...)
		_, err := g.addresses(t.Context(), named(name, 443), true)
		e := palyra.AsError(err)
		if e.Reason != palyra.ReasonEgressDenied || !strings.Contains(e.Text, name) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.name("mixed.example", "127.0.0.1", "10.9.1.1", "9.9.9.8", "::1", "2606:4700::1")
	got, err := g.addresses(t.Context(), named("mixed.example", 443), false)
	if want := []string{"10.9.1.1", "9.9.9.8", "2606:4700::1"}; err != nil ||
		!slices.EqualFunc(got, want, func(a netip.Addr, s string) bool { return a.String() == s }) {
		t.Errorf("%v %v", got, err)
	}
	if _, dials := w.seen(); len(dials) > 0 {
		t.Error(dials)
	}
}

func TestAddressesGrantedLiterally(t *testing.T) {
	g, w := newGuard(t, Config{PrivateRanges: []netip.Prefix{}})
	at := echo(t, "")
	w.at(7000, at)
	b := open(t, g, w, "127.0.0.1:7000", "0.0.0.0:7000", "224.0.0.1:7000")
	c, code, _ := b.connectTo("127.0.0.1:7000")
	if code != 200 {
		t.Fatal(code)
	}
	_ = c.Close()
	for _, to := range []string{
		"127.0.0.1:7001", "127.0.0.2:7000", "0.0.0.0:7000", "224.0.0.1:7000", "[::1]:7000",
		"[::ffff:127.0.0.2]:7000", "localhost:7000",
	} {
		if _, code, body := b.connectTo(to); code != 403 {
			t.Errorf("%s: %d %s", to, code, body)
		}
	}
	if c, code, _ := b.connectTo("[::ffff:127.0.0.1]:7000"); code != 200 {
		t.Error("the same address by another spelling")
	} else {
		_ = c.Close()
	}
	if _, dials := w.seen(); slices.ContainsFunc(dials, func(a netip.AddrPort) bool { return a.String() != "127.0.0.1:7000" }) {
		t.Error(dials)
	}
}

// A name that is public when it is looked at and private a moment later.
func TestRebinding(t *testing.T) {
	g, w := newGuard(t, Config{PrivateRanges: []netip.Prefix{}})
	now := time.Now()
	g.names.now = func() time.Time { return now }
	w.name("good.example", "127.0.0.1") // from the world's beginning
	b := open(t, g, w, "good.example:443")
	if _, code, _ := b.connectTo("good.example:443"); code != 403 {
		t.Error(code)
	}
	w.mu.Lock()
	w.names["good.example."] = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("10.0.0.1")}
	w.mu.Unlock()
	now = now.Add(2 * cacheFor)
	if _, code, _ := b.connectTo("good.example:443"); code != 403 {
		t.Error(code)
	}
	if lookups, dials := w.seen(); len(dials) > 0 || len(lookups) != 2 {
		t.Error(lookups, dials)
	}
}

func TestPublicIsNotOwn(t *testing.T) {
	g, _ := newGuard(t, Config{PrivateRanges: []netip.Prefix{}})
	g.own.list = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(9, 9, 9, 9), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for a, want := range map[string]bool{"9.9.9.8": true, "9.9.9.9": false, "10.0.0.1": false} {
		if g.Public(netip.MustParseAddr(a)) != want {
			t.Error(a)
		}
	}
}

func TestOwnAddresses(t *testing.T) {
	now := time.Now()
	list, fail := []net.Addr{&net.IPNet{IP: net.ParseIP("9.9.9.9"), Mask: net.CIDRMask(24, 32)}}, error(nil)
	o := &own{list: func() ([]net.Addr, error) { return list, fail }, now: func() time.Time { return now }}
	if !o.has(netip.MustParseAddr("9.9.9.9")) || o.has(netip.MustParseAddr("9.9.9.8")) {
		t.Error("the list was not read")
	}
	list = []net.Addr{
		&net.IPNet{IP: net.ParseIP("9.9.9.8"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("2606:4700::7"), Mask: net.CIDRMask(64, 128)},
	}
	now = now.Add(ownFor + 1)
	if o.has(netip.MustParseAddr("9.9.9.9")) || !o.has(netip.MustParseAddr("2606:4700::7")) {
		t.Error("the list was not read again")
	}
	fail, now = errors.New("no"), now.Add(ownFor+1)
	if !o.has(netip.MustParseAddr("1.1.1.1")) {
		t.Error("nobody knows, so it could be")
	}
}

// An address that turns out to be this machine's own after all.
func TestNotSelf(t *testing.T) {
	g, w := newGuard(t, Config{PrivateRanges: []netip.Prefix{}})
	at := echo(t, "")
	w.name("sneaky.example", "1.1.1.1")
	g.own.list = func() ([]net.Addr, error) { return nil, nil }
	g.dialTCP = func(ctx context.Context, _ netip.AddrPort) (*net.TCPConn, error) {
		return w.dial(ctx, at.(*net.TCPAddr).AddrPort())
	}
	_, _, err := g.dial(t.Context(), permit{target: named("sneaky.example", 443)})
	if palyra.AsError(err).Reason != palyra.ReasonEgressDenied {
		t.Error(err)
	}
}

func TestRaceTriesEveryAddress(t *testing.T) {
	g, w := newGuard(t, Config{})
	at := echo(t, "")
	w.at(7000, at)
	w.name("many.example", "127.0.0.9", "127.0.0.8", "127.0.0.1") // only the last has a server
	c, address, err := g.dial(t.Context(), permit{target: named("many.example", 7000)})
	if err != nil || address != "127.0.0.1" {
		t.Fatal(address, err)
	}
	_ = c.Close()
	w.name("none.example", "127.0.0.9", "127.0.0.8")
	_, _, err = g.dial(t.Context(), permit{target: named("none.example", 7000)})
	if e := palyra.AsError(err); e.Code != palyra.Unavailable || !strings.Contains(e.Text, "refused") {
		t.Error(err)
	}
}

func TestRaceDoesNotWaitForTheSlow(t *testing.T) {
	g, w := newGuard(t, Config{})
	at := echo(t, "")
	w.at(7000, at)
	w.name("slow.example", "127.0.0.9", "127.0.0.1")
	g.dialTCP = func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
		if to.Addr().String() == "127.0.0.9" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return w.dial(ctx, to)
	}
	start := time.Now()
	c, _, err := g.dial(t.Context(), permit{target: named("slow.example", 7000)})
	if err != nil || time.Since(start) > 5*time.Second {
		t.Fatal(err, time.Since(start))
	}
	_ = c.Close()
}

func TestInterleave(t *testing.T) {
	var list []netip.Addr
	for _, s := range []string{"2606::1", "2606::2", "1.1.1.1", "2606::3", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5"} {
		list = append(list, netip.MustParseAddr(s))
	}
	var got []string
	for _, a := range interleave(list) {
		got = append(got, a.String())
	}
	if want := []string{"2606::1", "1.1.1.1", "2606::2", "1.1.1.2", "2606::3", "1.1.1.3"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}

func TestTheResolverForgets(t *testing.T) {
	g, w := newGuard(t, Config{})
	now := time.Now()
	g.names.now = func() time.Time { return now }
	for range 3 {
		_, _ = g.names.addrs(t.Context(), "good.example")
		_, _ = g.names.addrs(t.Context(), "gone.example")
	}
	if lookups, _ := w.seen(); len(lookups) != 1+3 {
		t.Error(lookups)
	}
	for i := range cacheNames + 10 {
		g.names.keep(strings.Repeat("x", i), nil)
	}
	if len(g.names.cache) > cacheNames {
		t.Error(len(g.names.cache))
	}
	now = now.Add(2 * cacheFor)
	g.names.keep("new", nil)
	if len(g.names.cache) != 1 {
		t.Error(len(g.names.cache))
	}
}
