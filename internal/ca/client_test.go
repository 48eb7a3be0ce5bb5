package ca

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"palyra"
)

// impostor is a server that shows any certificate.
func impostor(key any, ders ...[]byte) *tls.Config {
	return &tls.Config{NextProtos: []string{Protocol}, Certificates: []tls.Certificate{{Certificate: ders, PrivateKey: key}}}
}

func asServer(c *x509.Certificate, name string) {
	c.DNSNames, c.ExtKeyUsage = []string{name}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
}

// A device talks to its own daemon and to nobody else, whatever they show.
func TestADeviceRefusesImpostors(t *testing.T) {
	f := newFixture(t)
	a, other := f.open(), f.foreign(t)
	d := newDevice(t).renew(t, a)
	conf := d.config(t, f.clock)
	name := conf.ServerName
	server := newDevice(t) // a key; what is signed for it is the case
	signed := func(by *Authority, spoil func(c *x509.Certificate)) []byte {
		return signedBy(t, by, server, func(c *x509.Certificate) {
			asServer(c, name)
			if spoil != nil {
				spoil(c)
			}
		})
	}
	rsaKey, p256Key := weakKey(t, "rsa-1024"), weakKey(t, "p-256")
	as := func(c *x509.Certificate) { asServer(c, name) }
	leaf, between := chained(t, a, server)
	theirs, err := other.serverCert("", true)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]*tls.Config{
		"a device's certificate": impostor(server.key, signedBy(t, a, server, nil)),
		"another daemon":         impostor(theirs.PrivateKey, theirs.Certificate...),
		"another CA, our name":   impostor(server.key, signed(other, nil)),
		"self-signed":            impostor(server.key, selfSigned(t, server.key)),
		"expired":                impostor(server.key, signed(a, func(c *x509.Certificate) { c.NotAfter = f.now.Add(-time.Minute) })),
		"not yet valid":          impostor(server.key, signed(a, func(c *x509.Certificate) { c.NotBefore = f.now.Add(time.Minute) })),
		"another name":           impostor(server.key, signed(a, func(c *x509.Certificate) { c.DNSNames[0] = "console." + a.current().zone() })),
		"a name more": impostor(server.key, signed(a, func(c *x509.Certificate) {
			c.DNSNames = append(c.DNSNames,
				"console."+a.current().zone())
		})),
		"wildcard": impostor(server.key, signed(a, func(c *x509.Certificate) { c.DNSNames[0] = "*." + a.current().zone() })),
		"both usages": impostor(server.key, signed(a, func(c *x509.Certificate) {
			c.ExtKeyUsage = append(c.ExtKeyUsage,
				x509.ExtKeyUsageClientAuth)
		})),
		"an authority as leaf":   impostor(server.key, signed(a, func(c *x509.Certificate) { c.IsCA = true })),
		"the authority itself":   impostor(a.current().key, a.current().cert.Raw),
		"RSA 1024":               impostor(rsaKey, signedFor(t, a, rsaKey.Public(), server.id, as)),
		"P-256":                  impostor(p256Key, signedFor(t, a, p256Key.Public(), server.id, as)),
		"an intermediate's leaf": impostor(server.key, leaf, between),
		"stolen without its key": impostor(d.key, signed(a, nil)),
		"no protocol":            impostor(server.key, signed(a, nil)),
		"TLS 1.2":                impostor(server.key, signed(a, nil)),
	}
	cases["no protocol"].NextProtos = nil
	cases["TLS 1.2"].MaxVersion = tls.VersionTLS12
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server, client := listen(t, c).visit(conf)
			if client == nil || server.err == nil && server.state.HandshakeComplete && len(server.state.PeerCertificates) > 0 {
				t.Fatalf("client: %v; server: %v", client, server.err)
			}
			if name == "TLS 1.2" || name == "stolen without its key" {
				return // refused by TLS before it comes to certificates
			}
			if e := palyra.AsError(Explain(client)); e.Reason != palyra.ReasonBadCertificate {
				t.Errorf("unnamed: %v", client)
			}
		})
	}
	listen(t, impostor(server.key, signed(a, nil))).welcome(conf) // unspoiled it is the daemon
}

func TestClientRefusesWhatDoesNotFit(t *testing.T) {
	f := newFixture(t)
	a, other := f.open(), f.foreign(t)
	d, stranger := newDevice(t).renew(t, a), newDevice(t).renew(t, other)
	server, err := a.ServerLeaf("")
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *ClientConfig){
		"no key":              func(c *ClientConfig) { c.Key = nil },
		"another's key":       func(c *ClientConfig) { c.Key = stranger.key },
		"a weak key":          func(c *ClientConfig) { c.Key = weakKey(t, "p-256") },
		"no certificate":      func(c *ClientConfig) { c.Certificate = nil },
		"broken certificate":  func(c *ClientConfig) { c.Certificate = c.Certificate[:50] },
		"long certificate":    func(c *ClientConfig) { c.Certificate = make([]byte, maxCert+1) },
		"server certificate":  func(c *ClientConfig) { c.Certificate = server },
		"its own signature":   func(c *ClientConfig) { c.Certificate = selfSigned(t, d.key) },
		"another daemon's":    func(c *ClientConfig) { c.Certificate, c.Key = stranger.leaf.DER, stranger.key },
		"forged":              func(c *ClientConfig) { c.Certificate = flip(c.Certificate) },
		"no authority":        func(c *ClientConfig) { c.Authorities = nil },
		"too many":            func(c *ClientConfig) { c.Authorities = slices.Repeat(c.Authorities, mostIssuers+1) },
		"another authority":   func(c *ClientConfig) { c.Authorities = other.Certificates() },
		"a leaf as authority": func(c *ClientConfig) { c.Authorities = [][]byte{c.Certificate} },
		"a broken authority":  func(c *ClientConfig) { c.Authorities = [][]byte{nil} },
		"a forged authority":  func(c *ClientConfig) { c.Authorities = [][]byte{flip(c.Authorities[0])} },
		"a huge authority":    func(c *ClientConfig) { c.Authorities = [][]byte{make([]byte, maxCert+1)} },
		"expired":             func(c *ClientConfig) { c.Now = func() time.Time { return f.now.Add(31 * day) } },
		"too early":           func(c *ClientConfig) { c.Now = func() time.Time { return f.now.Add(-day) } },
	} {
		cfg := ClientConfig{Certificate: d.leaf.DER, Key: d.key, Authorities: a.Certificates(), Now: f.clock}
		spoil(&cfg)
		if conf, sni, err := Client(cfg); reason(err) != palyra.ReasonBadCertificate || conf != nil || sni != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := ClientConfig{Certificate: d.leaf.DER, Key: d.key, Authorities: append(other.Certificates(), a.Certificates()...), Now: f.clock}
	if _, sni, err := Client(cfg); err != nil || sni != a.current().serverName() {
		t.Errorf("%q, %v", sni, err)
	}
}

// The configurations serve HTTP/2 as the standard library speaks it.
func TestRequestsOverBothConfigurations(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conf := a.Server(ServerConfig{PairProtocol: pairing, Device: anyDevice})
	server := &http.Server{TLSConfig: conf, ReadHeaderTimeout: patience, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			p, err := PeerOf(*r.TLS)
			_, _ = fmt.Fprintln(w, r.Proto, p.Device, err)
		})}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(ln, "", "") }()
	way := &http.Transport{TLSClientConfig: d.config(t, f.clock), ForceAttemptHTTP2: true}
	res, err := (&http.Client{Transport: way, Timeout: patience}).Get("https://" + ln.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if want := "HTTP/2.0 " + d.id + " <nil>\n"; string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
	way.CloseIdleConnections()
	_ = server.Close()
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// flip damages a signature, which stands last.
func flip(der []byte) []byte {
	out := slices.Clone(der)
	out[len(out)-1] ^= 1
	return out
}

func TestTheClientLearnsThatItWasRefused(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	_, client := listen(t, a.Server(ServerConfig{})).visit(d.config(t, f.clock))
	if e := palyra.AsError(Explain(client)); e.Reason != palyra.ReasonBadCertificate || e.Remedy == "" || !errors.Is(e, client) {
		t.Errorf("%v: %+v", client, e)
	}
}

func TestExplainLeavesOthersAlone(t *testing.T) {
	ours := palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "revoked")
	plain := &net.OpError{Op: "read", Err: errors.New("reset")}
	for _, err := range []error{nil, ours, fmt.Errorf("x: %w", ours), plain, errors.New("x")} {
		if got := Explain(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, cause := range []error{
		x509.CertificateInvalidError{Reason: x509.Expired},
		x509.CertificateInvalidError{Reason: x509.IncompatibleUsage},
		x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"},
		x509.UnknownAuthorityError{},
		errors.New("other"),
	} {
		got := Explain(fmt.Errorf("dial: %w", &tls.CertificateVerificationError{Err: cause}))
		if e := palyra.AsError(got); e.Reason != palyra.ReasonBadCertificate || e.Remedy == "" {
			t.Errorf("%v: %v", cause, got)
		}
	}
}
