package egress

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"

	"palyra/internal/egress/sniff"
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
	i := sniff.RecordHead + 4 + 2 + 32
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
	grow(sniff.RecordHead+1, 3)
	grow(i, 2)
	return append(b, ext...)
}

func TestHiddenNamesAreRefused(t *testing.T) {
	plain := helloOf(t, &tls.Config{ServerName: "good.example"})
	g, w := newGuard(t, Config{})
	reached := serveCount(t, w, 443)
	b := open(t, g, w, "good.example:443")
	for _, say := range [][]byte{
		extended(t, plain, sniff.ExtECH, "xxxx"),
		extended(t, plain, sniff.ExtServerName, "\x00\x0f\x00\x00\x0cevil.example"), splitRecord(plain, len(plain)),
	} {
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

func helloFor(t testing.TB, name string) []byte {
	t.Helper()
	return helloOf(t, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}})
}
