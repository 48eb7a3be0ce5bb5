package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"palyra"
	"palyra/internal/egress/lend"
	"palyra/secrets"
)

// lendTo lends a secret to a session, and returns its placeholder, what trusts the run's authority, and what was noted.
func (b *bench) lendTo(hosts ...string) (placeholder string, trust *x509.CertPool, noted func() string) {
	b.Helper()
	l := secrets.Loan{
		Binding:     secrets.Binding{Name: "key", Kind: secrets.Header, Place: "X-Key", Hosts: hosts},
		Placeholder: lend.Placeholder([]byte(lentValue)), Value: palyra.NewSecret([]byte(lentValue)),
	}
	var mu sync.Mutex
	text := ""
	err := b.Lend([]secrets.Loan{l}, "/ca.pem", func(host string, u lend.Use) {
		mu.Lock()
		defer mu.Unlock()
		if len(text) < 1<<10 {
			text += fmt.Sprint(host, u)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(b.Authority())
	return l.Placeholder, trust, func() string { mu.Lock(); defer mu.Unlock(); return text }
}

const lentValue = "the value that nobody sees"

func ask(t testing.TB, c net.Conn, trust *x509.CertPool, name, key string) (string, error) {
	t.Helper()
	s := tls.Client(c, &tls.Config{RootCAs: trust, ServerName: name})
	if _, err := io.WriteString(s, "GET /x HTTP/1.1\r\nHost: "+name+"\r\nX-Key: "+key+"\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	all, err := io.ReadAll(s)
	return string(all), err
}

// A value goes in at the bound host, through every door, and at no other.
func TestLentThroughEveryDoor(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(b *bench, name string, port int) *net.TCPConn) {
		srv, ca := site(t, "bound.example", "other.example")
		g, w := newGuard(t, Config{Roots: ca.pool})
		w.at(443, srv.Listener.Addr())
		w.name("bound.example", "127.0.0.1")
		w.name("other.example", "127.0.0.1")
		b := open(t, g, w, "bound.example:443", "other.example:443")
		key, trust, noted := b.lendTo("bound.example:443")
		got, err := ask(t, way(b, "bound.example", 443), trust, "bound.example", key)
		if err != nil || !strings.Contains(got, "host=bound.example path=/x") || strings.Contains(got, lentValue) {
			t.Fatal(got, err)
		}
		if noted() != "bound.example:443{[key] []}" {
			t.Errorf("noted %q", noted())
		}
		got, err = ask(t, way(b, "other.example", 443), ca.pool, "other.example", key)
		if err != nil || !strings.Contains(got, "host=other.example") || strings.Contains(noted(), "other") {
			t.Error(got, err, noted())
		}
		if f := b.flow("bound.example", palyra.FlowAllowed); f.Door != doorOpened || f.In < 500 || f.Out < 200 {
			t.Errorf("%+v", f)
		}
		if f := b.flow("other.example", palyra.FlowAllowed); f.Door == doorOpened {
			t.Errorf("%+v", f)
		}
	})
}

// Who connects to a bound host and asks for another in TLS is refused; so is who does not trust the authority.
func TestLentRefusals(t *testing.T) {
	srv, ca := site(t, "bound.example")
	g, w := newGuard(t, Config{Roots: ca.pool})
	w.at(443, srv.Listener.Addr())
	w.name("bound.example", "127.0.0.1")
	b := open(t, g, w, "bound.example:443")
	key, trust, _ := b.lendTo("bound.example:443")
	for name, pool := range map[string]*x509.CertPool{"evil.example": trust, "bound.example": ca.pool} {
		c, code, _ := b.connectTo("bound.example:443")
		if code != 200 {
			t.Fatal(code)
		}
		if got, err := ask(t, c, pool, name, key); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	if f := b.flow("bound.example", palyra.FlowDenied); f.Host == "" {
		t.Error("no refusal is on record")
	}
}

// BenchmarkLent is what a request to a bound host costs over one that the guard only passes on: on a kept connection, and
// with a new one.
func BenchmarkLent(b *testing.B) {
	srv, ca := site(b, "bound.example", "other.example")
	g, w := newGuard(b, Config{Roots: ca.pool, MaxFlows: 16})
	w.at(443, srv.Listener.Addr())
	w.name("bound.example", "127.0.0.1")
	w.name("other.example", "127.0.0.1")
	e := open(b, g, w, "bound.example:443", "other.example:443")
	key, trust, _ := e.lendTo("bound.example:443")
	client := func(name string, roots *x509.CertPool, keep bool) func() {
		t := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return lean(e, name+":443"), nil },
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}, DisableKeepAlives: !keep,
		}
		b.Cleanup(t.CloseIdleConnections)
		return func() {
			r, _ := http.NewRequest("GET", "https://"+name+"/x", nil)
			r.Header.Set("X-Key", key)
			res, err := t.RoundTrip(r)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}
	for name, keep := range map[string]bool{"kept": true, "first": false} {
		b.Run(name, func(b *testing.B) {
			ratio(b, client("other.example", ca.pool, keep), client("bound.example", trust, keep))
		})
	}
}
