package rpc_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/ca"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
)

// world is a bench with every door open.
type world struct {
	*bench
	shift     *atomic.Int64 // how far the server's clock is off
	authority *ca.Authority
	remote    string
	console   string // its name, with the port
	consoleAt string // its address
	onPair    func() // somebody came to pair
	caDir     string
	// remoteFrom is where clients of the devices' door come from; empty: anywhere
	remoteFrom string
}

// device is a paired device.
type device struct {
	palyra.Device
	key  key
	cert []byte
	conf *tls.Config
	base string
	http *http.Client
}

const pairProtocol = "pair-test/1"

// newWorld serves everything; change, if any, sees the configuration first.
func newWorld(t testing.TB, limits rpc.Limits, change ...func(*rpc.Config)) *world {
	t.Helper()
	w := &world{shift: &atomic.Int64{}, onPair: func() {}}
	w.bench = newBench(t, func(c rpc.Config) (*rpc.Server, error) {
		c.Limits = limits
		c.Now = func() time.Time { return time.Now().Add(time.Duration(w.shift.Load())) }
		for _, f := range change {
			f(&c)
		}
		return rpc.New(c)
	})
	w.registry.OnEnd(w.server.EndCredential)
	w.openAuthority()
	w.openConsole()
	w.openRemote()
	return w
}

func (w *world) openConsole() {
	w.t.Helper()
	var err error
	w.console, err = w.server.OpenConsole("127.0.0.1:0")
	w.must(err)
	_, port, err := net.SplitHostPort(w.console)
	w.must(err)
	w.consoleAt = "127.0.0.1:" + port
}

// dialConsole finds names below localhost here, as browsers do.
func (w *world) dialConsole(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, w.consoleAt)
}

func (w *world) openAuthority() {
	dir := w.t.TempDir()
	w.caDir = dir
	var err error
	w.authority, err = ca.Open(w.t.Context(),
		ca.Config{KeyStore: ca.Files(filepath.Join(dir, "keys")), Certs: filepath.Join(dir, "certs"), Days: 30, Now: time.Now})
	w.must(err)
}

// openRemote opens the devices' door as the daemon does.
func (w *world) openRemote() {
	w.t.Helper()
	conf := w.authority.Server(ca.ServerConfig{
		PairProtocol: pairProtocol,
		Device: func(ctx context.Context, keyID string, _ *x509.Certificate) error {
			_, err := w.registry.DeviceByKey(ctx, keyID)
			return err
		},
	})
	var err error
	w.remote, err = w.server.OpenRemote(rpc.RemoteConfig{
		Listen: "127.0.0.1:0", TLS: conf, Seen: w.registry.Seen, PairProtocol: pairProtocol,
		Name: func(host string) bool { return strings.HasSuffix(host, ".palyra.internal") },
		Device: func(ctx context.Context, s tls.ConnectionState) (palyra.Device, error) {
			p, err := ca.PeerOf(s)
			if err != nil {
				return palyra.Device{}, err
			}
			return w.registry.Device(ctx, p.Device)
		},
		Pair: func(ctx context.Context, _ *tls.Conn) {
			w.onPair()
			<-ctx.Done()
		},
	})
	w.must(err)
}

// by is the owner's hand, as the registry wants it.
func (w *world) by() palyra.Signature {
	return palyra.Signature{Intent: palyra.Intent{KeyID: w.owner.id}}
}

// pair makes a device of the owner's known.
func (w *world) pair(name string, role palyra.Role) *device {
	w.t.Helper()
	d := &device{key: newKey()}
	pub, _ := base64.StdEncoding.DecodeString(d.key.public)
	leaf, err := w.authority.IssueDevice(ed25519.PublicKey(pub), access.DeviceID(pub))
	w.must(err)
	d.Device, err = w.registry.AddDevice(w.t.Context(), palyra.Device{
		Name: name, Principal: "user:alice", Role: role, PublicKey: d.key.public, Certificate: leaf.Digest, Serial: leaf.Serial,
		ExpiresAt: leaf.NotAfter, PairedBy: "user:alice", Call: "C1", Address: "192.0.2.7:1",
	}, "P1")
	w.must(err)
	conf, server, err := ca.Client(ca.ClientConfig{Certificate: leaf.DER, Key: d.key.private, Authorities: w.authority.Certificates()})
	w.must(err)
	d.cert, d.conf, d.base, d.http = leaf.DER, conf, "https://"+server, w.mtls(conf)
	return d
}

// paired makes a person's browser known, whose time may be over.
func (w *world) paired(name string, who palyra.Principal, days int) *device {
	w.t.Helper()
	d := &device{key: newKey()}
	r, err := access.New(access.Config{
		DB: w.registry.DB, Journal: w.journal, StateID: rpctest.StateID,
		Now: func() time.Time { return time.Now().AddDate(0, 0, 2*days) },
	})
	w.must(err)
	d.Device, err = r.AddDevice(w.t.Context(), palyra.Device{
		Name: name, Principal: who, Role: palyra.RoleApprover, PublicKey: d.key.public, PairedBy: "user:alice", Call: "C1", Address: w.console,
		ExpiresAt: time.Now().AddDate(0, 0, days).Add(time.Minute),
	}, "P1")
	w.must(err)
	return d
}

// mtls is a client of the devices' door.
func (w *world) mtls(conf *tls.Config) *http.Client {
	tr := &http.Transport{
		TLSClientConfig: conf, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := &net.Dialer{}
			if w.remoteFrom != "" {
				d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(w.remoteFrom)}
			}
			return d.DialContext(ctx, "tcp", w.remote)
		},
	}
	tr.Protocols.SetHTTP2(true)
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// browser is a client of the console's that follows nothing by itself.
func (w *world) browser() *http.Client {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: w.dialConsole}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// code asks for a link and returns what is in it.
func (w *world) code(k key, who palyra.Principal, role palyra.Role) string {
	w.t.Helper()
	link, _, err := w.server.Login(w.t.Context(), rpc.Caller{
		Principal: who, Role: role, Cap: role, Credential: rpc.ByOperatorSocket, CredentialID: "key:" + k.id,
	}, "")
	w.must(err)
	u, err := url.Parse(link)
	w.must(err)
	return u.Query().Get("code")
}

// signIn posts a code.
func (w *world) signIn(code string) *http.Response {
	w.t.Helper()
	res, err := w.browser().PostForm("http://"+w.console+"/login", url.Values{"code": {code}, "page": {pageSecret}})
	w.must(err)
	w.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// cookie signs a browser in as a person.
func (w *world) cookie(k key, who palyra.Principal, role palyra.Role) string {
	w.t.Helper()
	res := w.signIn(w.code(k, who, role))
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		w.t.Fatalf("%d %v", res.StatusCode, res.Cookies())
	}
	return res.Cookies()[0].Value
}

// pageSecret is what the pages of the console keep in the tests' browsers.
var pageSecret = strings.Repeat("A", 43)

// cookieHead is the head of a request that a page of the console makes.
func cookieHead(values ...string) http.Header {
	h := http.Header{rpc.PageHeader: {pageSecret}}
	for _, v := range values {
		h.Add("Cookie", "palyra_session="+v)
	}
	return h
}

// token makes an API token; ago is how long ago that was.
func (w *world) apiToken(who palyra.Principal, ago, ttl time.Duration, scopes ...palyra.Permission) (id, token string) {
	w.t.Helper()
	r, err := access.New(access.Config{
		DB: w.registry.DB, Journal: w.journal, StateID: rpctest.StateID,
		Now: func() time.Time { return time.Now().Add(-ago) },
	})
	w.must(err)
	tok, secret, err := r.AddToken(w.t.Context(),
		palyra.Token{Name: "t" + strconv.FormatInt(time.Now().UnixNano(), 10), Principal: who, Scopes: scopes}, ttl, w.by())
	w.must(err)
	_ = secret.Use(func(b []byte) error { token = string(b); return nil })
	return tok.ID, token
}

// person makes a person with a key of their own.
func (w *world) person(name string, role palyra.Role) key {
	w.t.Helper()
	k := newKey()
	_, err := w.registry.AddOperator(w.t.Context(),
		palyra.Operator{Principal: palyra.Principal("user:" + name), Role: role, PublicKey: k.public}, w.by())
	w.must(err)
	return k
}

var serverConfig = ca.ServerConfig{PairProtocol: pairProtocol}

// newcomer is a machine that wants to pair.
func (w *world) newcomer(k key) *tls.Config {
	der := selfSigned(w.t, k)
	return &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{pairProtocol}, MinVersion: tls.VersionTLS13,
		//nolint:gosec // it does not know the daemon yet
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: k.private}},
	}
}

// newTightWorld is a world with limits that a test can reach.
func newTightWorld(t testing.TB, requests int, wait time.Duration) *world {
	t.Helper()
	w := &world{shift: &atomic.Int64{}, onPair: func() {}}
	w.bench = newBench(t, func(c rpc.Config) (*rpc.Server, error) { return rpc.NewTight(c, wait, requests, 4<<20) })
	w.registry.OnEnd(w.server.EndCredential)
	w.openAuthority()
	w.openConsole()
	w.openRemote()
	return w
}
