package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
)

// helloOf returns what a client of crypto/tls says first.
func helloOf(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, c).Handshake()
	}()
	buf := make([]byte, 8<<10)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	<-done
	_ = client.Close()
	return buf[:n]
}

// extended adds an extension to a ClientHello.
func extended(t testing.TB, hello []byte, kind uint16, body string) []byte {
	t.Helper()
	b := bytes.Clone(hello)
	i := recordHead + 4 + 2 + 32
	i += 1 + int(b[i])
	i += 2 + int(b[i])<<8 + int(b[i+1])
	i += 1 + int(b[i])
	ext := append([]byte{byte(kind >> 8), byte(kind), byte(len(body) >> 8), byte(len(body))}, body...)
	grow := func(at, size int) {
		n := 0
		for _, x := range b[at : at+size] {
			n = n<<8 | int(x)
		}
		n += len(ext)
		for k := size - 1; k >= 0; k-- {
			b[at+k] = byte(n)
			n >>= 8
		}
	}
	grow(3, 2)
	grow(recordHead+1, 3)
	grow(i, 2)
	return append(b, ext...)
}

func TestParseHello(t *testing.T) {
	plain := helloOf(t, &tls.Config{ServerName: "good.example"})
	for name, tc := range map[string]struct {
		in   []byte
		want hello
		err  error
	}{
		"usual":              {plain, hello{1, "good.example", false}, nil},
		"more follows":       {append(bytes.Clone(plain), recordData, 3, 3, 0, 1, 0), hello{1, "good.example", false}, nil},
		"old":                {helloOf(t, &tls.Config{ServerName: "good.example", MaxVersion: tls.VersionTLS12}), hello{1, "good.example", false}, nil},
		"no name":            {helloOf(t, &tls.Config{ServerName: "127.0.0.1"}), hello{}, nil},
		"in pieces":          {splitRecord(plain, 40), hello{1, "good.example", false}, nil},
		"in crumbs":          {splitRecord(plain, len(plain)), hello{}, errBadHello},
		"cut":                {plain[:len(plain)-1], hello{}, errMore},
		"ECH":                {extended(t, plain, extECH, "xxxx"), hello{1, "good.example", true}, nil},
		"ESNI":               {extended(t, plain, extESNI, ""), hello{1, "good.example", true}, nil},
		"two names":          {extended(t, plain, extServerName, "\x00\x0f\x00\x00\x0cevil.example"), hello{}, errBadHello},
		"an extension again": {extended(t, extended(t, plain, 0x1234, ""), 0x1234, ""), hello{}, errBadHello},
		"trailing bytes":     {bumped(plain), hello{}, errBadHello},
		"an endless record":  {[]byte{22, 3, 1, 0xff, 0xff}, hello{}, errBadHello},
		"an empty record":    {[]byte{22, 3, 1, 0, 0}, hello{}, errBadHello},
		"an endless hello":   {[]byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, hello{}, errTooLong},
		"another message":    {[]byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, hello{}, errBadHello},
		"another record":     {[]byte{23, 3, 1, 0, 4, 1, 0, 0, 0}, hello{}, errBadHello},
		"nothing in it":      {[]byte{22, 3, 1, 0, 4, 1, 0, 0, 0}, hello{}, errBadHello},
	} {
		got, size, err := parseHello(tc.in)
		if !errors.Is(err, tc.err) || got != tc.want || err == nil && size > len(tc.in) {
			t.Errorf("%s: %+v %d %v", name, got, size, err)
		}
	}
	for _, names := range []string{
		"", "\x00\x00", "\x00\x0f\x01\x00\x0cgood.example", "\x00\x0f\x00\x00\x0dgood.example", "\x00\x03\x00\x00\x00", "\x00\x12\x00\x00\x0cgood.example\x00\x00\x00",
		"\x00\x0f\x00\x00\x0cgood.examplex", "\x00\x1e\x00\x00\x0cgood.example\x00\x00\x0cevil.example",
	} {
		if h, _, err := parseHello(extended(t, helloOf(t, &tls.Config{ServerName: "127.0.0.1"}), extServerName, names)); err == nil {
			t.Errorf("%q: %+v", names, h)
		}
	}
}

// bumped has a byte after the ClientHello, in its record.
func bumped(b []byte) []byte {
	b = append(bytes.Clone(b), 0)
	n := int(b[3])<<8 + int(b[4]) + 1
	b[3], b[4] = byte(n>>8), byte(n)
	return b
}

func TestHiddenNamesAreRefused(t *testing.T) {
	plain := helloOf(t, &tls.Config{ServerName: "good.example"})
	g, w := newGuard(t, Config{})
	reached := serveCount(t, w, 443)
	b := open(t, g, w, "good.example:443")
	for _, say := range [][]byte{extended(t, plain, extECH, "xxxx"), extended(t, plain, extServerName, "\x00\x0f\x00\x00\x0cevil.example"), splitRecord(plain, len(plain))} {
		if got := talk(t, ways[doorDirect](b, "good.example", 443), string(say)); got != "\x15\x03\x01\x00\x02\x02\x31" {
			t.Errorf("%q", got)
		}
	}
	b.end()
	if reached() != 0 {
		t.Error("it went out")
	}
}

// An address that was granted says nothing about names.
func TestNamesAtAGrantedAddress(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, ca := site(t, "any.example")
	w.at(443, srv.Listener.Addr())
	b := open(t, g, w, "127.0.0.1:443")
	c, code, _ := b.connectTo("127.0.0.1:443")
	if code != 200 {
		t.Fatal(code)
	}
	if err := tls.Client(c, &tls.Config{RootCAs: ca.pool, ServerName: "any.example"}).Handshake(); err != nil {
		t.Error(err)
	}
}

func TestAsksAgain(t *testing.T) {
	retry := "\x16\x03\x03\x00\x58\x02\x00\x00\x54\x03\x03" + retryRandom
	for name, tc := range map[string]struct {
		in           string
		again, known bool
	}{
		"a retry": {retry, true, true}, "part of one": {retry[:len(retry)-1], false, false}, "nothing": {"", false, false},
		"an answer": {strings.Replace(retry, retryRandom[:1], "\xce", 1), false, true}, "an alert": {"\x15", false, true}, "text": {"HTTP/1.1 400", false, true},
		"another message": {"\x16\x03\x03\x00\x58\x0b", false, true},
	} {
		if again, known := asksAgain([]byte(tc.in)); again != tc.again || known != tc.known {
			t.Errorf("%s: %v %v", name, again, known)
		}
	}
}

func FuzzClientHello(f *testing.F) {
	plain := helloOf(f, &tls.Config{ServerName: "good.example"})
	f.Add(plain)
	f.Add(splitRecord(plain, 7))
	f.Add(extended(f, plain, extECH, "x"))
	f.Add(helloOf(f, &tls.Config{ServerName: "good.example", MaxVersion: tls.VersionTLS12}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, size, err := parseHello(b)
		if err != nil {
			if size != 0 || h != (hello{}) {
				t.Errorf("%+v %d %v", h, size, err)
			}
			return
		}
		if size > len(b) || (h.names == 1) != (h.name != "") {
			t.Errorf("%+v %d", h, size)
		}
		// Every beginning of it is too short, and what follows does not matter.
		for _, n := range []int{0, 1, size / 2, size - 1} {
			if _, _, err := parseHello(b[:n]); !errors.Is(err, errMore) {
				t.Errorf("%d of %d bytes: %v", n, size, err)
			}
		}
		if again, n, err := parseHello(append(bytes.Clone(b[:size]), 1, 2, 3)); again != h || n != size || err != nil {
			t.Errorf("%+v %d %v", again, n, err)
		}
	})
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", "\x16\x03\x01", "EHLO x\r\n", "\r\n\r\n", "PRI * HTTP/2.0\r\n", "0032git-upload-pack /x\x00", "SSH-2.0-x\r\n", "\"HTTP/"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		all := classify(b)
		if cut < 0 || cut > len(b) {
			return
		}
		// What was told of a beginning is not taken back, but that what is opaque
		// may turn out to be web, for which it is watched.
		if some := classify(b[:cut]); some != unclear && some != all && (some != opaque || all != web) {
			t.Errorf("%q: %v, then %v", b, some, all)
		}
		// A request that our reader takes is never taken for something else.
		if n, err := headSize(b); err == nil {
			if _, err := parseHead(b[:n]); err == nil && all != web {
				t.Errorf("%q: %v", b, all)
			}
		}
	})
}

func helloFor(t testing.TB, name string) []byte {
	t.Helper()
	return helloOf(t, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}})
}
