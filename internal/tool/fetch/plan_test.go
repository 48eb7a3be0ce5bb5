package fetch

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"palyra"
	toolkit "palyra/internal/tool"
)

func TestPlan(t *testing.T) {
	w := newWorld(t)
	p, err := w.plan(Name, args{
		"url": "http://Example.org:8080/a?api_key=1&b=2&B_TOKEN=x", "method": "PUT", "body": "x\n",
		"timeout_ms": 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(p.Detail.Notes, "\n")
	if !slices.Equal(p.Egress, []string{"example.org:8080"}) || p.ReadOnly || p.Tier != palyra.TierBuiltin || p.Limits.WallMS != 1000 ||
		!slices.Equal(p.Capabilities, []palyra.Capability{palyra.Network}) || p.Workspace.Path != "" {
		t.Errorf("%+v", p)
	}
	if p.Detail.Summary != "PUT http://example.org:8080/a?api_key=1&b=2&B_TOKEN=x" || !strings.Contains(notes, "in clear") ||
		!strings.Contains(notes, `"api_key"`) ||
		!strings.Contains(notes, `"B_TOKEN"`) || strings.Contains(notes, `"b"`) || !strings.Contains(notes, `sends 2 bytes: "x\n"`) {
		t.Errorf("%q\n%s", p.Detail.Summary, notes)
	}
	if p, err := w.plan(Name, args{"url": "https://example.org"}); err != nil || p.Limits.WallMS != defWallMS || len(p.Detail.Notes) != 0 ||
		p.Egress[0] != "example.org:443" {
		t.Errorf("%+v %v", p, err)
	}
	if p, err := w.plan(Name, args{"url": "https://e.org/" + strings.Repeat("x", 5000)}); err != nil || len(p.Detail.Summary) > 400 {
		t.Errorf("%d %v", len(p.Detail.Summary), err)
	}
	if len(w.dialed) != 0 || w.opened != 0 {
		t.Error("planning went out")
	}
	_, err = (&world{TB: t}).plan(Name, args{"url": "https://example.org/"})
	w.wants("off", err, palyra.ReasonDisabled, "operator")
}

// Addresses of this machine and of its networks are pointed out.
func TestInnerAddressesAreNoted(t *testing.T) {
	w := newWorld(t)
	for host, inside := range map[string]bool{
		"127.0.0.1": true, "[::1]": true, "10.1.2.3": true, "192.168.0.1": true, "169.254.169.254": true, "[fe80::1]": true, "[fd00::1]": true,
		"0.0.0.0": true, "224.0.0.1": true,
		"1.1.1.1": false, "[2606:4700::1111]": false, "localhost.example": false,
	} {
		p, err := w.plan(Name, args{"url": "https://" + host + "/"})
		if err != nil || strings.Contains(strings.Join(p.Detail.Notes, "\n"), "public Internet") != inside {
			t.Errorf("%s: %q, %v", host, p.Detail.Notes, err)
		}
	}
	w.hosts = fixed{got: []string{"9.9.9.9:443"}} // who knows of this machine's own
	if p, err := w.plan(Name, args{"url": "https://9.9.9.9/"}); err != nil ||
		!strings.Contains(strings.Join(p.Detail.Notes, "\n"), "9.9.9.9:443 is not an address of the public Internet") {
		t.Errorf("%q, %v", p.Detail.Notes, err)
	}
	w.hosts = nil
	if p, err := w.plan(AllowName, args{"host": "10.0.0.1", "port": 1}); err != nil || len(p.Detail.Notes) != 2 {
		t.Errorf("%+v, %v", p.Detail, err)
	}
}

// Equal calls have one digest; every part of a call is in it.
func TestPlanDigest(t *testing.T) {
	w := newWorld(t)
	digest := func(a args) palyra.Digest {
		p, err := w.plan(Name, a)
		if err != nil {
			t.Fatal(err)
		}
		d, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := func() args {
		return args{"url": "https://a.test/x", "method": "POST", "body": "b", "headers": args{"a": "1"}}
	}
	seen := map[palyra.Digest]string{digest(base()): "base"}
	for name, change := range map[string]any{
		"url": "https://a.test/y", "method": "PUT", "body": "c", "headers": args{"a": "2"}, "max_bytes": 5, "follow": 1,
		"redirect_to": []string{"b.test:1"}, "timeout_ms": 7,
	} {
		a := base()
		a[name] = change
		d := digest(a)
		if was := seen[d]; was != "" {
			t.Errorf("%s is not bound (%s)", name, was)
		}
		seen[d] = name
	}
	if seen[digest(base())] != "base" {
		t.Error("equal calls differ")
	}
}

func TestRefusedArguments(t *testing.T) {
	w := newWorld(t)
	ok := "https://a.test/"
	many, wide := args{}, args{}
	for i := range maxHeaders + 1 {
		many[fmt.Sprint("h", i)] = ""
	}
	for i := range 3 {
		wide[fmt.Sprint("h", i)] = strings.Repeat("x", maxValue)
	}
	for _, c := range []struct {
		a      args
		reason palyra.Reason
		says   string
	}{
		{args{"url": ""}, palyra.ReasonMalformedInput, "https://"},
		{args{"url": "a.test"}, palyra.ReasonMalformedInput, "https://"},
		{args{"url": "ftp://a.test/"}, palyra.ReasonMalformedInput, "https://"},
		{args{"url": "http:a.test"}, palyra.ReasonMalformedInput, "HOST"},
		{args{"url": "https:///x"}, palyra.ReasonMalformedInput, "HOST"},
		{args{"url": "https://u@a.test/"}, palyra.ReasonMalformedInput, "by binding"},
		{args{"url": "https://u:p@a.test/"}, palyra.ReasonMalformedInput, "by binding"},
		{args{"url": "https://a.test/\r\nX: y"}, palyra.ReasonMalformedInput, "%20"},
		{args{"url": "https://a.test/ x"}, palyra.ReasonMalformedInput, "%20"},
		{args{"url": `https://a.test\x`}, palyra.ReasonMalformedInput, "%20"},
		{args{"url": "https://a.test:0/"}, palyra.ReasonMalformedInput, "65535"},
		{args{"url": "https://a.test:080/"}, palyra.ReasonMalformedInput, "65535"},
		{args{"url": "https://a.test:65536/"}, palyra.ReasonMalformedInput, "65535"},
		{args{"url": "https://a.test:/"}, palyra.ReasonMalformedInput, "port"},
		{args{"url": "https://é.test/"}, palyra.ReasonMalformedInput, "xn--"},
		{args{"url": "https://*.test/"}, palyra.ReasonMalformedInput, "xn--"},
		{args{"url": "https://127.1/"}, palyra.ReasonMalformedInput, "usual form"},
		{args{"url": "https://0177.0.0.1/"}, palyra.ReasonMalformedInput, "usual form"},
		{args{"url": "https://0x7f000001/"}, palyra.ReasonMalformedInput, "usual form"},
		{args{"url": "https://[fe80::1%25lo]/"}, palyra.ReasonMalformedInput, "usual form"},
		{args{"url": "https://[::ffff:10.0.0.1]/"}, palyra.ReasonMalformedInput, "usual form"},
		{args{"url": "https://-a.test/"}, palyra.ReasonMalformedInput, "not a host"},
		{args{"url": "https://a.test/" + strings.Repeat("x", maxURL)}, palyra.ReasonMalformedInput, "8192"},
		{args{"url": ok, "method": "TRACE"}, palyra.ReasonMalformedInput, string(Name)},
		{args{"url": ok, "method": "get"}, palyra.ReasonMalformedInput, string(Name)},
		{args{"url": ok, "method": "GET /x HTTP/1.1\r\n"}, palyra.ReasonMalformedInput, string(Name)},
		{args{"url": ok, "body": ""}, palyra.ReasonMalformedInput, "POST"},
		{args{"url": ok, "method": "HEAD", "body_b64": ""}, palyra.ReasonMalformedInput, "POST"},
		{args{"url": ok, "method": "POST", "body": "x", "body_b64": "eA=="}, palyra.ReasonMalformedInput, "one of"},
		{args{"url": ok, "method": "POST", "body_b64": "eA"}, palyra.ReasonMalformedInput, "padding"},
		{args{"url": ok, "method": "POST", "body": strings.Repeat("x", maxBody+1)}, palyra.ReasonInputTooLarge, "1048576"},
		{
			args{"url": ok, "method": "POST", "body_b64": base64.StdEncoding.EncodeToString(make([]byte, maxBody+1))},
			palyra.ReasonInputTooLarge,
			"1048576",
		},
		{args{"url": ok, "headers": many}, palyra.ReasonMalformedInput, "64"},
		{args{"url": ok, "headers": wide}, palyra.ReasonMalformedInput, "16384"},
		{args{"url": ok, "headers": args{"a": strings.Repeat("x", maxValue+1)}}, palyra.ReasonMalformedInput, "8192"},
		{args{"url": ok, "headers": args{strings.Repeat("a", maxName+1): ""}}, palyra.ReasonMalformedInput, "name of a header"},
		{args{"url": ok, "headers": args{"A": "1", "a": "2"}}, palyra.ReasonMalformedInput, "twice"},
		{args{"url": ok, "max_bytes": -1}, palyra.ReasonMalformedInput, "8388608"},
		{args{"url": ok, "max_bytes": maxAnswer + 1}, palyra.ReasonMalformedInput, "8388608"},
		{args{"url": ok, "follow": -1}, palyra.ReasonMalformedInput, "10"},
		{args{"url": ok, "follow": maxFollow + 1}, palyra.ReasonMalformedInput, "10"},
		{args{"url": ok, "timeout_ms": 0}, palyra.ReasonMalformedInput, string(Name)},
		{args{"url": ok, "timeout_ms": 120_001}, palyra.ReasonMalformedInput, "120000"},
		{args{"url": ok, "redirect_to": []string{"b.test"}}, palyra.ReasonMalformedInput, "example.org:443"},
		{args{"url": ok, "redirect_to": []string{"*.b.test:443"}}, palyra.ReasonMalformedInput, "not a host"},
		{args{"url": ok, "redirect_to": slices.Repeat([]string{"b.test:1"}, maxElsewhere+1)}, palyra.ReasonMalformedInput, "8"},
		{args{"url": ok, "more": 1}, palyra.ReasonSchemaMismatch, string(Name)},
		{args{"url": 1}, palyra.ReasonSchemaMismatch, string(Name)},
	} {
		_, err := w.plan(Name, c.a)
		w.wants(palyra.Clip(fmt.Sprint(c.a), 120), err, c.reason, c.says)
	}
}

func TestRefusedHeaders(t *testing.T) {
	for _, name := range []string{
		"Authorization", "authorization", "Cookie", "COOKIE2", "Proxy-Authorization", "X-Api-Key", "x-auth-token", "X_Api_Key", "PRIVATE-TOKEN",
		"X-Amz-Security-Token", "X-Vault-Token",
		"X-Password", "X-CSRF-Token", "Sec-WebSocket-Authentication", "X-Secret", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Credential",
		"X-Session-Id", "X-Access-Key",
	} {
		newWorld(t).wants(name, header(name, "x", nil), palyra.ReasonMalformedInput, "by binding")
	}
	for _, name := range []string{
		"Host", "host", "Connection", "Transfer-Encoding", "Content-Length", "TE", "Trailer", "Upgrade", "Expect", "Keep-Alive",
		"Proxy-Connection", "Proxy-X", "Accept-Encoding", "Via",
	} {
		newWorld(t).wants(name, header(name, "x", nil), palyra.ReasonMalformedInput, "leave it out")
	}
	for _, name := range []string{"", " ", "a b", "a:", ":path", "a\r\nb", "é", "a\x00", "a/b", "(a)"} {
		newWorld(t).wants(name, header(name, "x", nil), palyra.ReasonMalformedInput, "name of a header")
	}
	for _, value := range []string{"a\nb", "a\r\nX: y", "\x00", "é", "\x7f", "a\x0bb"} {
		newWorld(t).wants(value, header("A", value, nil), palyra.ReasonMalformedInput, "one line")
	}
	for _, name := range []string{
		"Accept", "Content-Type", "If-None-Match", "Range", "X-Author", "Origin", "User-Agent", "X-Requested-With",
		"Accept-Language",
	} {
		if err := header(name, "a\tb; c=\"d\"", nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fixed is a Hosts with one answer.
type fixed struct {
	got []string
	err error
}

func (f fixed) Check([]string) ([]string, error) { return f.got, f.err }

func (fixed) Public(a netip.Addr) bool { return a != netip.AddrFrom4([4]byte{9, 9, 9, 9}) }

// What the guard says of a host is what counts.
func TestHostsAreAsked(t *testing.T) {
	w := newWorld(t)
	w.hosts = fixed{got: []string{"xn--9ca.test:443"}}
	p, err := w.plan(Name, args{"url": "https://é.test/"})
	if err != nil || p.Egress[0] != "xn--9ca.test:443" || p.Detail.Summary != "GET https://xn--9ca.test/" {
		t.Errorf("%+v %v", p, err)
	}
	w.hosts = fixed{err: palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "never")}
	_, err = w.plan(Name, args{"url": "https://a.test/"})
	w.wants("denied", err, palyra.ReasonEgressDenied, "never")
	_, err = w.plan(AllowName, args{"host": "a.test", "port": 1})
	w.wants("denied", err, palyra.ReasonEgressDenied, "never")
	for _, got := range [][]string{nil, {"a:443", "b:443"}, {"a.test:80"}, {"*.test:443"}, {"a.test"}, {"É:443"}} {
		w.hosts = fixed{got: got}
		if _, err := w.plan(Name, args{"url": "https://a.test/"}); palyra.AsError(err).Reason != palyra.ReasonMalformedInput {
			t.Errorf("%q: %v", got, err)
		}
	}
}

func TestAllow(t *testing.T) {
	w := newWorld(t)
	p, err := w.plan(AllowName, args{"host": "Registry.Example.", "port": 443, "why": "npm\n\"install\""})
	if err != nil || !slices.Equal(p.Egress, []string{"registry.example:443"}) || !p.ReadOnly ||
		p.Detail.Summary != `allow registry.example:443 for "npm\n\"install\""` {
		t.Errorf("%+v %v", p, err)
	}
	if !slices.ContainsFunc(p.Detail.Notes, func(n string) bool { return strings.Contains(n, "call P") && strings.Contains(n, "run npm") }) {
		t.Errorf("who wants it is not said: %q", p.Detail.Notes)
	}
	tool := allower{w.config()}
	inside := toolEnv()
	inside.Parent = "P"
	for who, env := range map[string]toolkit.Env{"an agent by itself": toolEnv(), "an agent inside a sandbox": inside} {
		mine := p
		if err := tool.Plan(t.Context(), env, &mine); palyra.AsError(err).Reason != palyra.ReasonPermission {
			t.Errorf("%s: %v", who, err)
		}
	}
	out, err := tool.Run(t.Context(), toolEnv(), p)
	if err != nil || string(out) != `{"allowed":true}` || w.opened != 0 {
		t.Errorf("%s %v", out, err)
	}
	p.Egress = []string{"other:443"}
	_, err = tool.Run(t.Context(), toolEnv(), p)
	w.wants("another", err, palyra.ReasonPlanChanged, "anew")
	if p, err := w.plan(AllowName, args{"host": "::1", "port": 80}); err != nil || p.Egress[0] != "[::1]:80" ||
		p.Detail.Summary != "allow [::1]:80" {
		t.Errorf("%+v %v", p, err)
	}
	for _, a := range []args{
		{"host": "", "port": 1},
		{"host": "a", "port": 0},
		{"host": "a", "port": 65536},
		{"host": "a", "port": -1},
		{"host": "*.a", "port": 1},
		{"host": "a:1", "port": 1},
		{"host": "a b", "port": 1},
		{"host": "a", "port": 1, "why": strings.Repeat("x", maxWhy+1)},
		{"host": "a"},
	} {
		if _, err := w.plan(AllowName, a); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%.80v: %v", a, err)
		}
	}
}

// Whatever an address looks like, it is refused or has one host and one port, and
// what would be sent names no other.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{
		"https://a.test/x?y#z", "http://[::1]:80/", "http://a.test\\@b/", "http://a@b/", "http://a.test:443", "https://127.0.0.1", "https://é",
		"http://a\tb", "https://%61.test/", "https://a.test/%0d%0a",
		"http://1.2.3.4.", "http://a?@b", "http:/\\/a", "https://[::ffff:1.2.3.4]/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		at, err := Config{}.target(raw)
		if err != nil {
			if e := (*palyra.Error)(nil); !errors.As(err, &e) || e.Code == palyra.Internal {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		host, port, err := net.SplitHostPort(at.hostPort)
		if err != nil {
			t.Fatalf("%q: %q", raw, at.hostPort)
		}
		if h, err := plainHost(host); err != nil || h != host {
			t.Fatalf("%q: %q", raw, at.hostPort)
		}
		sent := at.url.String()
		again, err := url.Parse(sent)
		if err != nil || again.User != nil || again.Hostname() != host || again.Port() != "" && again.Port() != port {
			t.Fatalf("%q: sends %q to %q (%v)", raw, sent, at.hostPort, err)
		}
		for _, c := range []byte(at.url.RequestURI() + at.url.Host) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q: sends %q", raw, at.url.RequestURI())
			}
		}
		if twice, err := (Config{}).target(sent); err != nil || twice.hostPort != at.hostPort || twice.url.String() != sent {
			t.Fatalf("%q: %q and then %v %v", raw, sent, twice, err)
		}
	})
}
