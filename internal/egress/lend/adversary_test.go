package lend

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
