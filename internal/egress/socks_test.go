package egress

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"palyra"
)

// socksTo asks for a target and returns the answer's code.
func (b *bench) socksTo(t target) (*net.TCPConn, byte) {
	b.Helper()
	c := b.proxyConn()
	b.socksHello(c, b.token)
	if _, err := c.Write(socksRequest(t)); err != nil {
		b.Fatal(err)
	}
	answer := make([]byte, 10)
	if _, err := io.ReadFull(c, answer); err != nil {
		b.Fatal(err)
	}
	return c, answer[1]
}

func (b *bench) socksHello(c net.Conn, token string) byte {
	b.Helper()
	hello := append([]byte{5, 2, 0, 2, 1, 6}, "palyra"...)
	hello = append(append(hello, byte(len(token))), token...)
	if _, err := c.Write(hello); err != nil {
		b.Fatal(err)
	}
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil {
		b.Fatal(err)
	}
	if answer[0] != 5 || answer[1] != 2 || answer[2] != 1 {
		b.Fatalf("% x", answer)
	}
	return answer[3]
}

func named(name string, port int) target { return target{host{name: name}, port} }

func literal(addr string, port int) target {
	return target{host{addr: netip.MustParseAddr(addr)}, port}
}

func TestSOCKSRefusals(t *testing.T) {
	g, w := newGuard(t, Config{PrivateRanges: []netip.Prefix{}})
	w.name("private.example", "10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1")
	b := open(t, g, w, "good.example:443", "private.example:443", "gone.example:443")
	for _, tc := range []struct {
		target
		code byte
	}{
		{named("evil.example", 443), socksForbidden},
		{named("good.example", 80), socksForbidden},
		{literal("127.0.0.1", 443), socksForbidden},
		{literal("::1", 443), socksForbidden},
		{literal("127.18.9.9", 443), socksForbidden}, // synthetic and nobody's
		{named("127.0.0.1", 443), socksForbidden},
		{named("2130706433", 443), socksForbidden},
		{named("0x7f000001", 443), socksForbidden},
		{named("good\u200b.example", 443), socksForbidden},
		{named("go\u00adod.example", 443), socksForbidden},
		{named("ｇood.example", 443), socksForbidden},
		{named("private.example", 443), socksForbidden},
		{named("gone.example", 443), socksUnreachable},
	} {
		if _, code := b.socksTo(tc.target); code != tc.code {
			t.Errorf("%s: %d", tc.target, code)
		}
	}
	if _, dials := w.seen(); len(dials) > 0 {
		t.Errorf("dialled %v", dials)
	}
	b.flow("private.example", palyra.FlowDenied)
}

func TestSOCKSWantsTheToken(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	if c := b.proxyConn(); b.socksHello(c, "wrong") == 0 {
		t.Error("a wrong token was taken")
	}
	for name, say := range map[string]string{
		"without a password": "\x05\x01\x00", "no methods": "\x05\x00", "another version": "\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
	} {
		c := b.proxyConn()
		_ = c.SetLinger(0)
		_, _ = io.WriteString(c, say)
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		if len(all) > 0 && all[0] == 5 && !bytes.Equal(all, []byte{5, 0xff}) {
			t.Errorf("%s: % x", name, all)
		}
	}
	b.untouched()
}

func TestReadSOCKS(t *testing.T) {
	for in, want := range map[string]error{
		"\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50": socksCode(socksBadCommand),
		"\x05\x03\x00\x01\x01\x02\x03\x04\x00\x50": socksCode(socksBadCommand),
		"\x05\x01\x00\x05\x01":                     socksCode(socksBadAddress),
		"\x05\x01\x01\x01\x01\x02\x03\x04\x00\x50": errSOCKS,
		"\x04\x01\x00\x01\x01\x02\x03\x04\x00\x50": errSOCKS,
		"\x05\x01\x00\x01\x01\x02\x03\x04\x00\x00": socksCode(socksFailed),
		"\x05\x01\x00\x03\x00\x00\x50":             socksCode(socksForbidden),
		"\x05\x01\x00\x03\x05ab":                   io.ErrUnexpectedEOF,
		"\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50": nil,
	} {
		if _, _, err := readSOCKS(bytes.NewReader([]byte(in))); !errors.Is(err, want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x03\x0cgood.example\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, port, err := readSOCKS(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, n, err := readSOCKS(bytes.NewReader(socksRequest(target{h, port})))
		if err != nil || again != h || n != port || h.addr.Is4In6() {
			t.Errorf("%v %d: %v %d %v", h, port, again, n, err)
		}
	})
}
