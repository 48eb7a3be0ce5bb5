package pairing

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"palyra"
)

// That somebody is there is found out without a try being spent.
func TestReach(t *testing.T) {
	h := newHost(t)
	s := h.show()
	dial := (&net.Dialer{Timeout: time.Second}).DialContext
	for range Tries + 1 {
		if err := Reach(t.Context(), dial, h.address); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.device("laptop").pin(s.PIN); err != nil {
		t.Error(err)
	}
	if last := s.wait(); last.State != palyra.PairingDone || last.Tries != 1 {
		t.Errorf("%+v", last)
	}
}

// Nobody, somebody who does not speak TLS, and somebody who does not pair.
func TestReachNobody(t *testing.T) {
	dial := (&net.Dialer{Timeout: time.Second}).DialContext
	serve := func(handle func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			c, err := l.Accept()
			if err == nil {
				handle(c)
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	h := newHost(t)
	for name, address := range map[string]string{
		"nobody": gone.Addr().String(),
		"no TLS": serve(func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 no\r\n\r\n")) }),
		"no pairing": serve(func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{h.cert}, MinVersion: tls.VersionTLS13}).Handshake()
		}),
	} {
		if err := Reach(t.Context(), dial, address); palyra.AsError(err).Reason != palyra.ReasonPairingBroken ||
			palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
