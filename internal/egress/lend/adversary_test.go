package lend

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/secrets"
)

// A target that only looks like a path to some readers names no other host with the value in it.
func TestTargetsThatNameOtherHosts(t *testing.T) {
	targets := []string{"x:https://evil.example/steal", "https:evil.example/", "evil.example", "*"}
	for _, second := range []bool{false, true} {
		for _, extra := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
			for _, target := range targets {
				var came atomic.Int32
				b := newBound(t, second, func(http.ResponseWriter, *http.Request) { came.Add(1) }, loan("a", secrets.Header, "Authorization", ""))
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(b.desk.Certificate())
				c := tls.Client(b.connect(), &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}})
				fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n%sAuthorization: Bearer %s\r\n\r\n", target, b.at, extra, b.desk.loans[0].Placeholder)
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil || res.StatusCode != http.StatusBadRequest || came.Load() > 0 {
					t.Errorf("GET %s: %v, %v; %d requests reached the server", target, res, err, came.Load())
				}
				_ = c.Close()
			}
		}
	}
}

// A placeholder is told of also where a query writes it in another way.
func TestStrayInAnEscapedQuery(t *testing.T) {
	b := newBound(t, false, func(http.ResponseWriter, *http.Request) {}, loan("a", secrets.Header, "Authorization", ""))
	p := b.desk.loans[0].Placeholder
	for _, query := range []string{fmt.Sprintf("x=%%%02x%s", p[0], p[1:]), fmt.Sprintf("x=%%zz%%%02X%s", p[0], p[1:])} {
		r, err := http.NewRequest(http.MethodGet, "https://"+b.at+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = query
		if u, err := b.desk.substitute(r, b.at); err != nil || !slices.Contains(u.Stray, "a") {
			t.Errorf("%s: %+v, %v", query, u, err)
		}
	}
}

// All that a short value can be is not tried out on files whose values get placeholders.
func TestShortValuesAreNotFound(t *testing.T) {
	short := secrets.Loan{
		Binding:     secrets.Binding{Name: "pin", Hosts: []string{"a.example:443"}},
		Placeholder: "PHPHPH", Value: palyra.NewSecret([]byte("482913")),
	}
	long := short
	long.Placeholder, long.Value = "LONGLONGLONG", palyra.NewSecret([]byte(strings.Repeat("v", secrets.MinMasked)))
	d, err := New([]secrets.Loan{short, long}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := d.Stand([]byte("482913")); ok {
		t.Errorf("found: %s", got)
	}
	if got, ok := d.Stand([]byte(strings.Repeat("v", secrets.MinMasked))); !ok || got != long.Placeholder {
		t.Errorf("a value that is long enough: %s, %v", got, ok)
	}
}

// An authority for an address vouches for no name.
func TestAuthorityOfAnAddress(t *testing.T) {
	a, err := newAuthority([]string{"192.0.2.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for host, good := range map[string]bool{"192.0.2.1": true, "192.0.2.2": false, "bank.example": false} {
		c, err := a.certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(a.root)
		if _, err = leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host}); (err == nil) != good {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// A pause in the middle of a value that comes back does not let it through, and whole lines go at once.
func TestPauseInAValue(t *testing.T) {
	line, rest := make(chan struct{}), make(chan struct{})
	b := newBound(t, false, func(w http.ResponseWriter, r *http.Request) {
		v := r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "data: first\n"+v[:len(v)/2])
		_ = http.NewResponseController(w).Flush()
		<-line // the client has the line, so the pause is over
		<-rest
		_, _ = io.WriteString(w, v[len(v)/2:])
	}, loan("a", secrets.Header, "Authorization", ""))
	r, err := http.NewRequest(http.MethodGet, b.server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.desk.loans[0].Placeholder)
	res, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body := bufio.NewReader(res.Body)
	if first, err := body.ReadString('\n'); first != "data: first\n" || err != nil {
		t.Fatalf("%q, %v", first, err)
	}
	close(line)
	time.AfterFunc(4*pause, func() { close(rest) })
	got, err := io.ReadAll(body)
	if err != nil || strings.Contains(string(got), value[len(value)/2:]) || strings.Contains(string(got), value[:8]) {
		t.Errorf("the client has %q, %v", got, err)
	}
}

// A value that a server sends back is masked as libraries of several languages write it, and without blanks at its ends.
func TestFormsOfOtherLanguages(t *testing.T) {
	v := "abcd1234/EFGH5678+ijkl9012mnop=="
	m := masksOf([]secrets.Loan{{Placeholder: Placeholder([]byte(v)), Value: palyra.NewSecret([]byte(" " + v + "\n"))}})
	for name, s := range map[string]string{
		"Gson": `abcd1234/EFGH5678+ijkl9012mnop\u003d\u003d`, "System.Text.Json": `abcd1234/EFGH5678\u002Bijkl9012mnop==`,
		"quote of Python": `abcd1234/EFGH5678%2Bijkl9012mnop%3D%3D`, "Mustache": `abcd1234&#x2F;EFGH5678+ijkl9012mnop&#x3D;&#x3D;`,
		"small digits": `abcd1234%2fEFGH5678%2bijkl9012mnop%3d%3d`, "as it is": v,
	} {
		if got := m.text(s); strings.Contains(got, "EFGH5678") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
