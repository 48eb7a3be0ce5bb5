package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"palyra"
	"palyra/internal/cell"
)

// A server of net/http waits half a second after it closed a connection early.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// brisk are times for tests that wait for them.
var brisk = times{
	first: 10 * time.Second, head: 10 * time.Second, quiet: 50 * time.Millisecond,
	idle: time.Minute, look: time.Minute, dial: 10 * time.Second,
}

// world is what is outside: names, and servers at their ports.
type world struct {
	mu      sync.Mutex
	names   map[string][]netip.Addr
	ports   map[uint16]uint16 // where a server that is to be at a port really is
	lookups []string
	dials   []netip.AddrPort
}

func (w *world) name(name string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addrs {
		w.names[name+"."] = append(w.names[name+"."], netip.MustParseAddr(a))
	}
}

func (w *world) lookup(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, host)
	if a, ok := w.names[host]; ok {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, to)
	if p, ok := w.ports[to.Port()]; ok {
		to = netip.AddrPortFrom(to.Addr(), p)
	}
	w.mu.Unlock()
	return (&net.Dialer{}).DialTCP(ctx, "tcp", netip.AddrPort{}, to)
}

func (w *world) seen() (lookups []string, dials []netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.lookups...), append([]netip.AddrPort(nil), w.dials...)
}

// at says that the server for a port is where l listens.
func (w *world) at(port int, l net.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports[uint16(port)] = l.(*net.TCPAddr).AddrPort().Port()
}

// loopback lets tests have their servers here.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// newGuard makes a guard in a world of its own, where good.example and
// other.example are servers of this machine.
func newGuard(t testing.TB, c Config) (*Guard, *world) {
	t.Helper()
	if c.PrivateRanges == nil {
		c.PrivateRanges = loopback
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{names: map[string][]netip.Addr{}, ports: map[uint16]uint16{}}
	w.name("good.example", "127.0.0.1")
	w.name("other.example", "127.0.0.1")
	g.names.lookup, g.dialTCP, g.times = w.lookup, w.dial, brisk
	g.base = netip.MustParseAddr("127.18.0.0")
	return g, w
}

// bench is a session whose doors are open on this machine.
type bench struct {
	testing.TB
	*Session
	w     *world
	at    []net.Addr
	flows []palyra.EgressFlow
	more  int64
}

// open opens a session for a plan with the given hosts.
func open(t testing.TB, g *Guard, w *world, hosts ...string) *bench {
	t.Helper()
	return openFor(t, g, w, nil, hosts...)
}

func openFor(t testing.TB, g *Guard, w *world, c *palyra.Call, hosts ...string) *bench {
	t.Helper()
	s, err := g.Open(t.Context(), c, palyra.Plan{Egress: hosts})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, Session: s, w: w}
	t.Cleanup(func() { s.Close() })
	var files []*os.File
	for _, d := range s.Doors() {
		f, at := socket(t, d)
		files, b.at = append(files, f), append(b.at, at)
	}
	if err := s.Serve(files); err != nil {
		t.Fatal(err)
	}
	return b
}

// socket stands in for one that a cell makes: at another port, and for the doors
// at every address really at every one.
func socket(t testing.TB, d cell.Listener) (*os.File, net.Addr) {
	t.Helper()
	ip := "127.0.0.1"
	if d.Addr.Addr() != netip.MustParseAddr("127.18.0.1") {
		ip = d.Addr.Addr().String()
	}
	var c interface{ File() (*os.File, error) }
	var at net.Addr
	if d.UDP {
		u, err := net.ListenPacket("udp4", ip+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		c, at = u.(*net.UDPConn), u.LocalAddr()
	} else {
		l, err := net.Listen("tcp4", ip+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, at = l.(*net.TCPListener), l.Addr()
	}
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	return f, at
}

// end closes the session and keeps its flows.
func (b *bench) end() []palyra.EgressFlow {
	b.Helper()
	b.flows, b.more = b.Session.Close()
	return b.flows
}

// flow returns the first flow for a host with a verdict.
func (b *bench) flow(host string, verdict palyra.FlowVerdict) palyra.EgressFlow {
	b.Helper()
	for _, f := range b.end() {
		if f.Host == host && f.Verdict == verdict {
			return f
		}
	}
	b.Fatalf("no flow %s %s in %+v", host, verdict, b.flows)
	return palyra.EgressFlow{}
}

func (b *bench) untouched() {
	b.Helper()
	if lookups, dials := b.w.seen(); len(lookups)+len(dials) > 0 {
		b.Errorf("something left the guard: %v %v", lookups, dials)
	}
}

func dialTo(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// proxyConn connects to the proxy's port.
func (b *bench) proxyConn() *net.TCPConn { b.Helper(); return dialTo(b, b.at[0].String()) }

// synthetic asks the name server for a name.
func (b *bench) synthetic(name string) netip.Addr {
	b.Helper()
	m := b.query(name, dnsmessage.TypeA)
	if len(m.Answers) != 1 {
		b.Fatalf("%s: %+v", name, m)
	}
	return netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)
}

func (b *bench) query(name string, kind dnsmessage.Type) dnsmessage.Message {
	b.Helper()
	c, err := net.Dial("udp", b.at[1].String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf, n := make([]byte, 4096), 0
	for range 20 { // a datagram can be lost
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Write(packQuery(b, name, kind)); err != nil {
			b.Fatal(err)
		}
		if n, err = c.Read(buf); err == nil {
			break
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil {
		b.Fatal(err)
	}
	return m
}

func packQuery(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	q := dnsmessage.Question{Name: dnsmessage.MustNewName(name + "."), Type: kind, Class: dnsmessage.ClassINET}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{q}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// door returns where the direct door for a name and port is.
func (b *bench) door(name string, port int) string {
	b.Helper()
	at := b.synthetic(name)
	for i, d := range b.doors {
		if d.kind == directDoor && int(d.Addr.Port()) == port && (d.Addr.Addr().IsUnspecified() || d.Addr.Addr() == at) {
			return netip.AddrPortFrom(at, b.at[i].(*net.TCPAddr).AddrPort().Port()).String()
		}
	}
	b.Fatalf("no door for port %d in %v", port, b.Doors())
	return ""
}

func (b *bench) authorization() string {
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+b.token)) + "\r\n"
}

// connect asks the proxy for a tunnel and returns the status.
func (b *bench) connectTo(to string) (*net.TCPConn, int, string) {
	b.Helper()
	c := b.proxyConn()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", to, to, b.authorization())
	br := bufio.NewReader(iotest.OneByteReader(c)) // what follows stays with c
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		b.Fatal(err)
	}
	body := ""
	if resp.StatusCode != http.StatusOK {
		all, _ := io.ReadAll(resp.Body)
		body = string(all)
	}
	return c, resp.StatusCode, body
}

// talk sends bytes and returns everything that comes back.
func talk(t testing.TB, c *net.TCPConn, say string) string {
	t.Helper()
	if _, err := io.WriteString(c, say); err != nil {
		t.Fatal(err)
	}
	all, _ := io.ReadAll(c)
	return string(all)
}

// authority signs the certificates of servers outside.
type authority struct {
	cert tls.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB, names ...string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "outside"}, DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return authority{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool}
}

// site is a server outside that says which host it was asked for.
func site(t testing.TB, tlsFor ...string) (*httptest.Server, authority) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Body", fmt.Sprint(len(body)))
		_, _ = fmt.Fprintf(w, "host=%s path=%s", r.Host, r.URL)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	var a authority
	if len(tlsFor) > 0 {
		a = newAuthority(t, tlsFor...)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{a.cert}}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s, a
}

// echo is a server outside that sends back what it gets, after a greeting.
func echo(t testing.TB, greeting string) net.Addr {
	t.Helper()
	return serve(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, greeting)
		_, _ = io.Copy(c, c)
	})
}

// serve is a TCP server outside.
func serve(t testing.TB, handle func(*net.TCPConn)) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			all.Go(func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			})
		}
	})
	return l.Addr()
}
