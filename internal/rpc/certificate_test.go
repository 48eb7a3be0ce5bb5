package rpc_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/ca"
)

// foreign makes a certificate for a device's key by another daemon's authority.
func (w *world) foreign(d *device) []byte {
	w.t.Helper()
	pub, _ := base64.StdEncoding.DecodeString(d.key.public)
	dir := w.t.TempDir()
	a, err := ca.Open(w.t.Context(), ca.Config{
		KeyStore: ca.Files(filepath.Join(dir, "keys")), Certs: filepath.Join(dir, "certs"), Days: 30, Now: time.Now,
	})
	w.must(err)
	leaf, err := a.IssueDevice(ed25519.PublicKey(pub), access.DeviceID(pub))
	w.must(err)
	return leaf.DER
}

func selfSigned(t testing.TB, k key, names ...string) []byte {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "me"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.private.Public(), k.private)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// alerted waits for an alert about a handshake; "" when none came in time.
func (w *world) alerted(wait time.Duration) palyra.Reason {
	late := time.After(wait)
	for {
		for _, a := range w.journal.alerts() {
			if a.Method == "tls" {
				return a.Reason
			}
		}
		select {
		case <-w.journal.came:
		case <-late:
			return ""
		}
	}
}

// Whoever comes with a bad certificate, or in another way than devices do, gets no
// answer to anything, and a certificate that was shown is on record.
func TestBadCertificatesAtTheDoor(t *testing.T) {
	for _, c := range []struct {
		name  string
		shown bool
		spoil func(w *world, d *device, conf *tls.Config)
	}{
		{"expired", true, func(w *world, d *device, conf *tls.Config) {
			show(conf, d, w.clockCert(d, -60*24*time.Hour))
		}},
		{"not yet valid", true, func(w *world, d *device, conf *tls.Config) { show(conf, d, w.clockCert(d, 60*24*time.Hour)) }},
		{"wrong authority", true, func(w *world, d *device, conf *tls.Config) { show(conf, d, w.foreign(d)) }},
		{"self-signed", true, func(w *world, d *device, conf *tls.Config) { show(conf, d, selfSigned(t, d.key)) }},
		{"self-signed with the device's name", true, func(w *world, d *device, conf *tls.Config) {
			show(conf, d, selfSigned(t, d.key, d.ID+"."+strings.SplitN(conf.ServerName, ".", 2)[1]))
		}},
		{"revoked", true, func(w *world, d *device, _ *tls.Config) {
			_, err := w.registry.RevokeDevice(t.Context(), d.ID, w.by())
			w.must(err)
		}},
		{"server's as a client's", true, func(w *world, d *device, conf *tls.Config) {
			der, err := w.authority.ServerLeaf(conf.ServerName)
			w.must(err)
			show(conf, d, der)
		}},
		{"the authority itself", true, func(w *world, d *device, conf *tls.Config) { show(conf, d, w.authority.Certificates()[0]) }},
		{"none", false, func(_ *world, _ *device, conf *tls.Config) { conf.Certificates = nil }},
		{"no ALPN", false, func(_ *world, _ *device, conf *tls.Config) { conf.NextProtos = nil }},
		{"another ALPN", false, func(_ *world, _ *device, conf *tls.Config) { conf.NextProtos = []string{"http/1.1"} }},
		{"both ALPN", false, func(_ *world, _ *device, conf *tls.Config) { conf.NextProtos = []string{"h2", pairProtocol} }},
		{"TLS 1.2", false, func(_ *world, _ *device, conf *tls.Config) {
			conf.MinVersion, conf.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			d := w.pair("laptop", palyra.RoleOwner)
			if got := w.get(d.conf); got != "200" {
				t.Fatalf("unspoiled it gets %q", got)
			}
			conf := d.conf.Clone()
			conf.VerifyConnection = nil // a hostile client looks at nothing
			c.spoil(w, d, conf)
			w.journal.alerts()
			if got := w.get(conf); got != "" {
				t.Errorf("answered with %q", got)
			}
			if c.shown {
				if got := w.alerted(30 * time.Second); got == "" {
					t.Error("nothing is on record")
				}
			}
			if seen := w.parts.Seen(); len(seen) > 1 { // the unspoiled one
				t.Errorf("reached %v", seen)
			}
		})
	}
}

// clockCert is a certificate of the world's own authority, made at another time.
func (w *world) clockCert(d *device, off time.Duration) []byte {
	w.t.Helper()
	pub, _ := base64.StdEncoding.DecodeString(d.key.public)
	a, err := ca.Open(w.t.Context(), ca.Config{
		KeyStore: ca.Files(filepath.Join(w.caDir, "keys")), Certs: filepath.Join(w.caDir, "certs"), Days: 30,
		Now: func() time.Time { return time.Now().Add(off) },
	})
	w.must(err)
	leaf, err := a.IssueDevice(ed25519.PublicKey(pub), d.ID)
	w.must(err)
	return leaf.DER
}

// show makes a client show another certificate.
func show(conf *tls.Config, d *device, der []byte) {
	conf.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: d.key.private}}
}

// get asks something simple over TLS, by hand, so that nothing on this side is
// checked; "" is no answer.
func (w *world) get(conf *tls.Config) string {
	w.t.Helper()
	raw, err := net.Dial("tcp", w.remote)
	w.must(err)
	defer func() { _ = raw.Close() }()
	w.must(raw.SetDeadline(time.Now().Add(20 * time.Second)))
	c := tls.Client(raw, conf)
	if c.Handshake() != nil {
		return ""
	}
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+conf.ServerName+"\r\n\r\n")
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	_ = raw.Close()
	m := find(w.t, "GetStatus")
	why, err := w.sendTo(w.mtls(conf), "https://"+conf.ServerName, m, m.request(w.t), nil)
	if err != nil {
		return ""
	}
	return "200" + string(why)
}

// A connection does not outlast the certificate that it came with.
func TestConnectionEndsWithItsCertificate(t *testing.T) {
	w := newWorld(t, nil)
	d := w.pair("laptop", palyra.RoleOwner)
	m := find(t, "GetStatus")
	if why, err := w.sendTo(d.http, d.base, m, m.request(t), nil); why != let || err != nil {
		t.Fatal(why, err)
	}
	w.shift.Store(int64(31 * 24 * time.Hour))
	if why, err := w.sendTo(d.http, d.base, m, m.request(t), nil); err == nil && why != palyra.ReasonBadCertificate {
		t.Errorf("%q %v", why, err)
	}
}

// The devices' door is called by its own name, and is no browser's.
func TestRemoteNamesAndOrigins(t *testing.T) {
	w := newWorld(t, nil)
	d := w.pair("laptop", palyra.RoleOwner)
	m := find(t, "GetStatus")
	for name, head := range map[string]http.Header{
		"an origin":       {"Origin": {d.base}},
		"an empty origin": {"Origin": {""}},
		"null":            {"Origin": {"null"}},
		"fetch metadata":  {"Sec-Fetch-Site": {"same-origin"}},
	} {
		if why, err := w.sendTo(d.http, d.base, m, m.request(t), head); err != nil || why != palyra.ReasonForeignOrigin {
			t.Errorf("%s: %q %v", name, why, err)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, d.base+m.procedure(), strings.NewReader("{}"))
	req.Host = "evil.example"
	req.Header.Set("Content-Type", "application/json")
	res, err := d.http.Do(req)
	w.must(err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("%d", res.StatusCode)
	}
}

// Half-open handshakes from one address take a few of the door's places and no
// more: a device comes in meanwhile from elsewhere.
func TestHalfOpenHandshakes(t *testing.T) {
	w := newWorld(t, nil)
	d := w.pair("laptop", palyra.RoleOwner)
	const all, kept = 60, 32
	cut := make(chan error, all)
	for range all {
		c, err := net.Dial("tcp", w.remote)
		w.must(err)
		defer func() { _ = c.Close() }()
		_ = c.SetReadDeadline(time.Now().Add(8 * time.Second)) // a handshake has 10
		go func() {
			_, err := c.Read(make([]byte, 1))
			cut <- err
		}()
	}
	for n := range all - kept {
		if err := <-cut; err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("only %d of %d were turned away: %v", n, all, err)
		}
	}
	w.remoteFrom = "127.0.0.2"
	m := find(t, "GetStatus")
	if why, err := w.sendTo(d.http, d.base, m, m.request(t), nil); why != let || err != nil {
		t.Errorf("%q %v", why, err)
	}
}
