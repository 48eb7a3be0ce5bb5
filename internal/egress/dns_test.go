package egress

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"palyra"
)

func TestNamesGetAddressesOfTheirOwn(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443", "*.wide.example:443", "other.example:8080", "1.2.3.4:80")
	for name, want := range map[string]string{
		"good.example": "127.18.0.16", "GOOD.Example": "127.18.0.16", "other.example": "127.18.0.17", "localhost": "127.0.0.1",
		"x.localhost": "127.0.0.1",
	} {
		if got := b.synthetic(name); got.String() != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	seen := map[netip.Addr]bool{}
	for i := range 100 {
		name := fmt.Sprintf("secret-part-%d.tunnel.example", i)
		a := b.synthetic(name)
		if seen[a] || !b.book.inRange(a) || b.synthetic(name) != a {
			t.Errorf("%s: %s", name, a)
		}
		seen[a] = true
	}
	b.untouched() // no question ever leaves
}

func TestOtherQuestions(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	for kind, want := range map[dnsmessage.Type]dnsmessage.RCode{
		dnsmessage.TypeAAAA: dnsmessage.RCodeSuccess, typeHTTPS: dnsmessage.RCodeSuccess, typeSVCB: dnsmessage.RCodeSuccess,
		dnsmessage.TypeTXT: dnsmessage.RCodeRefused,
		dnsmessage.TypeMX:  dnsmessage.RCodeRefused, dnsmessage.TypeNS: dnsmessage.RCodeRefused, dnsmessage.TypeALL: dnsmessage.RCodeRefused,
		dnsmessage.TypePTR: dnsmessage.RCodeRefused, dnsmessage.TypeSRV: dnsmessage.RCodeRefused, dnsmessage.TypeAXFR: dnsmessage.RCodeRefused,
		10: dnsmessage.RCodeRefused,
	} {
		m := b.query("x.good.example", kind)
		if m.RCode != want || len(m.Answers) != 0 || m.ID != 7 || !m.Response {
			t.Errorf("%v: %+v", kind, m)
		}
	}
	for _, bad := range []string{"a b.example", "2130706433", "127.0.0.1", "-.example", "xn--a.example"} {
		if m := b.query(bad, dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
			t.Errorf("%s: %v", bad, m.RCode)
		}
	}
	b.untouched()
	if f := b.flow("x.good.example", palyra.FlowDenied); f.Door != doorDNS || f.Port != 53 {
		t.Errorf("%+v", f)
	}
}

func TestTooManyNames(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	for i := range maxOthers {
		if _, ok := b.book.address(fmt.Sprint("n", i)); !ok {
			t.Fatal(i)
		}
	}
	if m := b.query("one-more.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeServerFailure {
		t.Error(m.RCode)
	}
	if b.synthetic("good.example").String() != "127.18.0.16" {
		t.Error("a granted name was pushed out")
	}
}

func TestNamesOverTCP(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	c := dialTo(t, b.at[2].String())
	q := packQuery(t, "good.example", dnsmessage.TypeA)
	for range 3 {
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
			t.Fatal(err)
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, binary.BigEndian.Uint16(size[:]))
		var m dnsmessage.Message
		if _, err := io.ReadFull(c, buf); err != nil || m.Unpack(buf) != nil || len(m.Answers) != 1 {
			t.Fatal(m, err)
		}
	}
	if _, err := c.Write([]byte{0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n > 0 || err != nil {
		t.Error(n, err)
	}
}

// Rubbish gets no answer, or one that says so, and the next question is answered.
func TestBadQueries(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	good := packQuery(t, "good.example", dnsmessage.TypeA)
	answer := append([]byte(nil), good...)
	answer[2] |= 0x80
	two := append([]byte(nil), good...)
	two[5] = 2
	two = append(two, good[12:]...)
	status := append([]byte(nil), good...)
	status[2] |= 2 << 3
	chaos := append([]byte(nil), good...)
	chaos[len(chaos)-1] = 3
	loop := append(append([]byte(nil), good[:12]...), 0xc0, 12, 0, 1, 0, 1)
	for name, tc := range map[string]struct {
		say  []byte
		want int // code; -1: silence
	}{
		"nothing": {nil, -1}, "short": {good[:11], -1}, "an answer": {answer, -1}, "too long": {append(good, make([]byte, maxQuery)...), -1},
		"two questions": {two, int(dnsmessage.RCodeFormatError)}, "cut": {good[:len(good)-3], int(dnsmessage.RCodeFormatError)},
		"a loop": {loop, int(dnsmessage.RCodeFormatError)}, "status": {status, int(dnsmessage.RCodeNotImplemented)},
		"chaos": {chaos, int(dnsmessage.RCodeRefused)},
	} {
		out := b.answerName(tc.say)
		code := -1
		if out != nil {
			code = int(out[3] & 15)
		}
		if code != tc.want {
			t.Errorf("%s: %d", name, code)
		}
	}
	c, err := net.Dial("udp", b.at[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 500 {
		_, _ = c.Write([]byte(strings.Repeat("x", 600)))
	}
	b.synthetic("good.example")
}

func FuzzDNS(f *testing.F) {
	f.Add(packQuery(f, "good.example", dnsmessage.TypeA))
	f.Add(packQuery(f, "x.example", dnsmessage.TypeTXT))
	g, w := newGuard(f, Config{})
	s, err := g.Open(f.Context(), nil, planFor("good.example:443"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, q []byte) {
		out := s.answerName(q)
		if out == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || !m.Response || len(out) > 1024 {
			t.Fatalf("%v %+v", err, m)
		}
		for _, a := range m.Answers {
			r, ok := a.Body.(*dnsmessage.AResource)
			at := netip.AddrFrom4(r.A)
			if !ok || !s.book.inRange(at) && !at.IsLoopback() {
				t.Errorf("%+v", a)
			}
		}
		if lookups, _ := w.seen(); len(lookups) > 0 {
			t.Error("a question left the guard")
		}
	})
}
