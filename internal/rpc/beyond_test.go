package rpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/passkey/passkeytest"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
)

// beyond is a world with a door for browsers of other machines.
type beyond struct {
	*world
	at     string // its origin
	client *http.Client
	cookie http.Header
}

const laptop = "laptop.example"

// certificate is one for a name, and who trusts it.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// newBeyond opens a door of a kind, and signs a browser in there.
func newBeyond(t *testing.T, kind string) *beyond {
	t.Helper()
	w := &beyond{world: newWorld(t, nil)}
	var conf, trust *tls.Config
	if kind == "https" {
		cert, pool := certificate(t, laptop)
		conf = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
		trust = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	var err error
	w.at, err = w.server.OpenBeyond(kind, "127.0.0.1:0", laptop, conf)
	w.must(err)
	u, err := url.Parse(w.at)
	w.must(err)
	tr := &http.Transport{TLSClientConfig: trust, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+u.Port())
	}}
	t.Cleanup(tr.CloseIdleConnections)
	w.client = &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	alice := rpc.Caller{
		Principal: "user:alice", Role: palyra.RoleOwner, Cap: palyra.RoleOwner, Credential: rpc.ByOperatorSocket,
		CredentialID: "key:" + w.owner.id,
	}
	link, _, err := w.server.Login(t.Context(), alice, kind)
	w.must(err)
	code, ok := strings.CutPrefix(link, w.at+"/login?code=")
	if !ok {
		t.Fatal(link)
	}
	if res := w.world.signIn(code); res.StatusCode != http.StatusForbidden {
		t.Errorf("the link is good at this machine's door: %d", res.StatusCode)
	}
	link, _, err = w.server.Login(t.Context(), alice, kind)
	w.must(err)
	res, err := w.client.PostForm(w.at+"/login", url.Values{"code": {strings.TrimPrefix(link, w.at+"/login?code=")}, "page": {pageSecret}})
	w.must(err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("%s %v", res.Status, res.Cookies())
	}
	c := res.Cookies()[0]
	if c.Secure != (kind == "https") || strings.HasPrefix(c.Name, "__Host-") != c.Secure || !c.HttpOnly ||
		c.SameSite != http.SameSiteStrictMode {
		t.Errorf("%+v", c)
	}
	w.cookie = http.Header{rpc.PageHeader: {pageSecret}, "Cookie": {c.Name + "=" + c.Value}}
	return w
}

// asks makes a request of the browser, with more in its head.
func (w *beyond) asks(m method, msg proto.Message, more http.Header) palyra.Reason {
	w.t.Helper()
	head := w.cookie.Clone()
	for k, v := range more {
		head[k] = v
	}
	why, err := w.sendTo(w.client, w.at, m, msg, head)
	w.must(err)
	return why
}

// own pairs a browser at the door.
func (w *beyond) own(name string) *device {
	w.t.Helper()
	here := w.console
	defer func() { w.console = here }()
	w.console = w.at
	return w.paired(name, "user:alice", 0)
}

var (
	allows = &v1.DecideApprovalRequest{ApprovalId: "A1", Answer: "allow", Scope: "once", PlanDigest: "sha256:x"}
	denies = &v1.DecideApprovalRequest{ApprovalId: "A1", Answer: "deny", PlanDigest: "sha256:x"}
)

// Over HTTPS a browser of another machine looks and decides, by the name of the certificate and nothing else; sessions
// and keys are those of one door.
func TestTheConsoleOverHTTPS(t *testing.T) {
	w := newBeyond(t, "https")
	status, decide := find(t, "GetStatus"), find(t, "DecideApproval")
	if !strings.HasPrefix(w.at, "https://"+laptop+":") {
		t.Error(w.at)
	}
	if why := w.asks(status, status.request(t), nil); why != let {
		t.Errorf("looking: %q", why)
	}
	for name, head := range map[string]http.Header{
		"another page":     {"Origin": {"https://evil.example"}},
		"the page in HTTP": {"Origin": {strings.Replace(w.at, "https", "http", 1)}},
		"another site":     {"Sec-Fetch-Site": {"cross-site"}},
	} {
		if why := w.asks(status, status.request(t), head); why != palyra.ReasonForeignOrigin {
			t.Errorf("%s: %q", name, why)
		}
	}
	for _, host := range []string{"palyra.localhost", "127.0.0.1", "evil.example", laptop} {
		req, err := http.NewRequest(http.MethodGet, w.at+"/healthz", nil)
		w.must(err)
		req.Host = host // without the port: another name
		res, err := w.client.Do(req)
		w.must(err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("called %s: %s", host, res.Status)
		}
	}
	old := w.client.Transport.(*http.Transport).Clone()
	old.TLSClientConfig.MinVersion, old.TLSClientConfig.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := (&http.Client{Transport: old}).Get(w.at + "/healthz"); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if res, err := w.client.Get(strings.Replace(w.at, "https", "http", 1) + "/healthz"); err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("plain HTTP is spoken")
		}
	}
	cookie := http.Header{rpc.PageHeader: {pageSecret}, "Cookie": {strings.Replace(w.cookie.Get("Cookie"), "__Host-", "", 1)}}
	why, err := w.sendTo(w.browser(), "http://"+w.console, status, status.request(t), cookie)
	if why != palyra.ReasonNoCredential || err != nil {
		t.Errorf("the session at this machine's door: %q %v", why, err)
	}

	here, there := w.paired("here", "user:alice", 0), w.own("there")
	signed := func(d *device) http.Header {
		return intent(d.key.intent(t, decide, allows, rpctest.StateID, time.Now()))
	}
	if why := w.asks(decide, allows, signed(there)); why != let {
		t.Errorf("a key of this door: %q", why)
	}
	if why := w.asks(decide, allows, signed(here)); why != palyra.ReasonBadCredential {
		t.Errorf("a key of this machine's door: %q", why)
	}
	local := cookieHead(w.world.cookie(w.owner, "user:alice", palyra.RoleOwner))
	local["Palyra-Intent"] = signed(there)["Palyra-Intent"]
	if why, err := w.sendTo(w.browser(), "http://"+w.console, decide, allows, local); why != palyra.ReasonBadCredential || err != nil {
		t.Errorf("its key at this machine's door: %q %v", why, err)
	}
	key := w.passkeyAt("key", w.at)
	if why := w.asks(decide, allows, key.answers(t, decide, allows, passkeytest.Ask{}, time.Now())); why != let {
		t.Errorf("a passkey of this name: %q", why)
	}
	for _, origin := range []string{strings.Replace(w.at, "https", "http", 1), "https://" + laptop, "http://" + w.console} {
		if why := w.asks(decide, allows, key.answers(t, decide, allows, passkeytest.Ask{Origin: origin}, time.Now())); why !=
			palyra.ReasonBadSignature {
			t.Errorf("a passkey used at %s: %q", origin, why)
		}
	}
}

// Over plain HTTP a browser of another machine looks and denies. Whatever else it signs is refused, and why is said.
func TestTheConsoleOverPlainHTTPBeyond(t *testing.T) {
	w := newBeyond(t, "plain")
	status, decide, revoke := find(t, "GetStatus"), find(t, "DecideApproval"), find(t, "RevokeGrant")
	if why := w.asks(status, status.request(t), nil); why != let {
		t.Errorf("looking: %q", why)
	}
	own := w.own("phone")
	signed := func(m method, msg proto.Message) http.Header {
		return intent(own.key.intent(t, m, msg, rpctest.StateID, time.Now()))
	}
	var votes []palyra.Vote
	w.parts.OnDecide = func(v palyra.Vote) (palyra.Approval, error) {
		votes = append(votes, v)
		return palyra.Approval{ID: v.Approval}, nil
	}
	if why := w.asks(decide, allows, signed(decide, allows)); why != palyra.ReasonInsecureChannel {
		t.Errorf("allowing: %q", why)
	}
	if why := w.asks(revoke, revoke.request(t), signed(revoke, revoke.request(t))); why != palyra.ReasonInsecureChannel {
		t.Errorf("revoking: %q", why)
	}
	if why := w.asks(status, status.request(t), signed(status, status.request(t))); why != palyra.ReasonInsecureChannel {
		t.Errorf("looking, signed: %q", why)
	}
	if why := w.asks(decide, denies, nil); why != palyra.ReasonSignatureRequired {
		t.Errorf("denying by a cookie: %q", why)
	}
	if why := w.asks(decide, denies, signed(decide, denies)); why != let || len(votes) != 1 || votes[0].Answer != palyra.AnswerDeny {
		t.Errorf("denying: %q %+v", why, votes)
	}
	if at := strings.TrimPrefix(w.at, "http://"); !strings.HasPrefix(at, "127.0.0.1:") {
		t.Error(w.at)
	}
	req, err := http.NewRequest(http.MethodGet, w.at+"/healthz", nil)
	w.must(err)
	req.Host = laptop // a name that somebody bound to this address
	res, err := w.client.Do(req)
	w.must(err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("by a name: %s", res.Status)
	}
}

// A key that was paired over plain HTTP may be anybody's who was on the way. It denies there, in a session, and allows at no
// listener; nor can it be paired or entered anew as a key that does more.
func TestAKeyOfPlainHTTPOnlyDeniesForEver(t *testing.T) {
	w := newBeyond(t, "plain")
	decide, open := find(t, "DecideApproval"), find(t, "OpenConsole")
	phone := w.own("phone")
	cert, pool := certificate(t, laptop)
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	secure, err := w.server.OpenBeyond("https", "127.0.0.1:0", laptop, conf)
	w.must(err)
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+secure[strings.LastIndex(secure, ":")+1:])
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	local, remote := cookieHead(w.world.cookie(w.owner, "user:alice", palyra.RoleOwner)), w.pair("machine", palyra.RoleApprover)
	for where, ask := range map[string]func(method, proto.Message, http.Header) (palyra.Reason, error){
		"the plain listener": func(m method, msg proto.Message, h http.Header) (palyra.Reason, error) { return w.asks(m, msg, h), nil },
		"HTTPS": func(m method, msg proto.Message, h http.Header) (palyra.Reason, error) {
			return w.sendTo(&http.Client{Transport: tr}, secure, m, msg, h)
		},
		"loopback": func(m method, msg proto.Message, h http.Header) (palyra.Reason, error) {
			h["Cookie"], h[rpc.PageHeader] = local["Cookie"], local[rpc.PageHeader]
			return w.sendTo(w.browser(), "http://"+w.console, m, msg, h)
		},
		"the devices' door": func(m method, msg proto.Message, h http.Header) (palyra.Reason, error) {
			return w.sendTo(remote.http, remote.base, m, msg, h)
		},
		"the operator's socket": func(m method, msg proto.Message, h http.Header) (palyra.Reason, error) {
			return w.send("operator", m, msg, h), nil
		},
		"the agent's socket": func(m method, msg proto.Message, h http.Header) (palyra.Reason, error) {
			return w.send("agent", m, msg, h), nil
		},
	} {
		for _, one := range []struct {
			method
			msg proto.Message
		}{{decide, allows}, {open, &v1.OpenConsoleRequest{}}} {
			why, err := ask(one.method, one.msg, intent(phone.key.intent(t, one.method, one.msg, rpctest.StateID, time.Now())))
			if why == let || err != nil || where == "the plain listener" && why != palyra.ReasonInsecureChannel {
				t.Errorf("%s at %s: %q %v", one.Name(), where, why, err)
			}
		}
	}
	deny := func() http.Header { return intent(phone.key.intent(t, decide, denies, rpctest.StateID, time.Now())) }
	if why, err := w.sendTo(w.client, w.at, decide, denies, deny()); why != palyra.ReasonNoCredential || err != nil {
		t.Errorf("denying without a session: %q %v", why, err)
	}
	if why := w.asks(decide, denies, deny()); why != let {
		t.Errorf("denying: %q", why)
	}
	again := palyra.Device{
		Name: "again", Principal: "user:alice", Role: palyra.RoleApprover, PublicKey: phone.key.public, PairedBy: "user:alice", Call: "C2",
		Address: w.console, ExpiresAt: time.Now().Add(time.Hour),
	}
	if _, err := w.registry.AddDevice(t.Context(), again, "P2"); err == nil {
		t.Error("it is paired anew on this machine")
	}
	if _, err := w.registry.RevokeDevice(t.Context(), phone.ID, w.by()); err != nil {
		t.Error(err)
	}
	if _, err := w.registry.AddDevice(t.Context(), again, "P3"); err == nil {
		t.Error("it is paired anew on this machine, revoked")
	}
	if _, err := w.registry.AddOperator(t.Context(),
		palyra.Operator{Principal: "user:alice", Role: palyra.RoleOwner, PublicKey: phone.key.public}, w.by()); err == nil {
		t.Error("it is an operator's key")
	}
	if why := w.asks(decide, denies, deny()); why == let {
		t.Error("it denies after its end")
	}
}

// The rule stands by itself: also where a door took the key, it would only deny.
func TestAKeyOfPlainHTTPAtAnyDoor(t *testing.T) {
	for _, c := range []struct {
		plain   bool
		address string
		answer  palyra.Answer
		want    bool
	}{
		{false, "palyra.localhost:7142", palyra.AnswerAllow, true},
		{false, "https://laptop.example", palyra.AnswerAllow, true},
		{false, "http://192.0.2.7:7145", palyra.AnswerAllow, false},
		{false, "http://192.0.2.7:7145", palyra.AnswerDeny, true},
		{true, "https://laptop.example", palyra.AnswerAllow, false},
		{true, "http://192.0.2.7:7145", "", false},
	} {
		if got := rpc.Insecure(c.plain, c.address, map[string]any{"answer": string(c.answer)}) == nil; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A link for a door that is not open says how to open it.
func TestDoorsThatAreNotOpen(t *testing.T) {
	w := newWorld(t, nil)
	for _, kind := range []string{"https", "plain", "other"} {
		_, _, err := w.server.Login(t.Context(), rpc.Caller{
			Principal: "user:alice", Role: palyra.RoleOwner, Credential: rpc.ByOperatorSocket, CredentialID: "key:" + w.owner.id,
		}, kind)
		if e := palyra.AsError(err); e.Reason != palyra.ReasonDisabled || !strings.Contains(e.Remedy, "console.https_listen") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
