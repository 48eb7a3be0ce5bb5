package egress

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"testing"
)

// A client that breaks HTTP/2 and goes on sending meets nothing that is over: net/http may read from a connection after
// everything else of it has ended.
func TestLentToABrokenClient(t *testing.T) {
	srv, ca := site(t, "bound.example")
	g, w := newGuard(t, Config{Roots: ca.pool})
	w.at(443, srv.Listener.Addr())
	w.name("bound.example", "127.0.0.1")
	b := open(t, g, w, "bound.example:443")
	_, trust, _ := b.lendTo("bound.example:443")
	frame := func(kind byte, payload []byte) []byte {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:]
		return append(append(head, kind, 0, 0, 0, 0, 0), payload...)
	}
	done := make(chan struct{}, 24)
	for range cap(done) {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 4 {
				c, code, _ := b.connectTo("bound.example:443")
				if code != 200 {
					return
				}
				s := tls.Client(c, &tls.Config{RootCAs: trust, ServerName: "bound.example", NextProtos: []string{"h2"}})
				go func() { _, _ = io.Copy(io.Discard, s) }()
				_, _ = s.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, nil)...)) // settings
				_, _ = s.Write(frame(8, []byte{0x7f, 0xff, 0xff, 0xff}))                             // a window that is too large
				junk, err := frame(0xfa, make([]byte, 16<<10-1)), error(nil)
				for err == nil {
					_, err = s.Write(junk)
				}
				_ = c.Close()
			}
		}()
	}
	for range cap(done) {
		<-done
	}
}
