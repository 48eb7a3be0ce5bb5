package egress

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/egress/sniff"
)

func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{
		"example.org": "example.org", "EXAMPLE.org": "example.org", "example.org.": "example.org", "a_b.example": "a_b.example",
		"localhost": "localhost", "1e100.net": "1e100.net", "0x7f.example": "0x7f.example", "1.2.3.4.example": "1.2.3.4.example",
		"1.2.3.4": "1.2.3.4", "[2001:DB8::1]": "2001:db8::1", "2001:db8::1": "2001:db8::1",
		"[::ffff:10.0.0.1]": "10.0.0.1", "::ffff:0a00:0001": "10.0.0.1",
		"bücher.example": "xn--bcher-kva.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"XN--BCHER-KVA.example": "xn--bcher-kva.example",
		"faß.example":           "xn--fa-hia.example", "BÜCHER.Example.": "xn--bcher-kva.example",
	} {
		if h, err := parseHost(in); err != nil || h.String() != want {
			t.Errorf("%q: %q %v", in, h, err)
		}
	}
	for _, in := range []string{
		"", ".", "..", "a..b", ".a", "-a.example", "a-.example", "a b", "a/b", "a:b", "a@b", "a%2eb", "a\x00b", "a\nb", "*", "*.a", "a#b",
		"a?b", "a\\b",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "aa", strings.Repeat("x", 2000),
		"2130706433", "017700000001", "0x7f000001", "0x7F.0.0.1", "127.1", "127.0.1", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5", "256.1.1.1",
		"1.2.3.4..",
		"0x", "a.0x1f", "a.1", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "127.0.0.1.", "[1.2.3.4]", "[::1", "::1]", "[fe80::1%eth0]", "fe80::1%1",
		"[]", "[example.org]",
		"xn--a.example", "xn--.example", "xn--\xff.example", "a\u200db.example", "a\u0338.xn--zz-ýa",
		"ｅxample.org", "example。org", "\u212aELVIN.example", "good\u200b.example", "go\u00adod.example", "\u2060good.example",
		"good.exam\ufe0fple", "good\ufeff.example",
		"b\u200bücher.example", "bücher。example", "bu\u0308cher.example",
	} {
		if h, err := parseHost(in); err == nil {
			t.Errorf("%q was taken for %q", in, h)
		} else if e := palyra.AsError(err); e.Code != palyra.Invalid || e.Remedy == "" {
			t.Errorf("%q: %+v", in, e)
		}
	}
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.org", "[::1]", "127.0.0.1", "0x7f.1", "bücher.example", "xn--bcher-kva.example", "a。b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHost(s)
		if err != nil {
			return
		}
		again, err := parseHost(h.String())
		if err != nil || again != h {
			t.Fatalf("%q → %q → %q %v", s, h, again, err)
		}
		if h.literal() != (h.name == "") || h.addr.Is4In6() || h.addr.Zone() != "" {
			t.Errorf("%q: %+v", s, h)
		}
		if _, err := netip.ParseAddr(h.name); err == nil || strings.Trim(h.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" ||
			len(h.name) > sniff.MaxName {
			t.Errorf("%q: %q", s, h.name)
		}
	})
}

func TestCheck(t *testing.T) {
	g, _ := newGuard(t, Config{})
	got, err := g.Check([]string{
		"B.example:443", "a.example.:80", "*.C.example:443", "1.2.3.4:80", "[2001:DB8::1]:443", "b.example:443",
		"bücher.example:1",
	})
	want := []string{"*.c.example:443", "1.2.3.4:80", "[2001:db8::1]:443", "a.example:80", "b.example:443", "xn--bcher-kva.example:1"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{
		"", "a.example", "a.example:", "a.example:0", "a.example:65536", "a.example:+1", "a.example:01", "a.example:http", ":80", "*:443",
		"*.example:443",
		"*.1.2.3.4:80", "*.*.example.org:1", "a.*.example:1", "::1:80", "GET a.example:80", "a.example:443 GET /x", "https://a.example:443",
		"a.example:443/x",
	} {
		if got, err := g.Check([]string{bad}); err == nil {
			t.Errorf("%q gave %q", bad, got)
		} else if e := palyra.AsError(err); e.Remedy == "" || e.Reason == palyra.ReasonInternal {
			t.Errorf("%q: %+v", bad, e)
		}
	}
	if _, err := g.Check(make([]string, maxRules+1)); palyra.CodeOf(err) != palyra.Exhausted {
		t.Error(err)
	}
}

// Below some names anybody can have one.
func TestSuffixesThatAreNoLimit(t *testing.T) {
	g, _ := newGuard(t, Config{})
	for _, s := range []string{
		"com", "co.uk", "github.io", "githubusercontent.com", "amazonaws.com", "us-east-1.amazonaws.com", "s3.amazonaws.com",
		"compute-1.amazonaws.com",
		"on.aws", "lambda-url.eu-west-1.on.aws", "windows.net", "blob.core.windows.net", "cloudfront.net", "pages.dev", "workers.dev", "r2.dev",
		"vercel.app",
		"run.app", "a.run.app", "googleapis.com", "herokuapp.com", "ngrok.io", "trycloudflare.com", "digitaloceanspaces.com", "GitHub.IO",
		"xn--p1ai",
	} {
		if _, err := g.Check([]string{"*." + s + ":443"}); palyra.AsError(err).Reason != palyra.ReasonMalformedInput ||
			palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{
		"*.npmjs.org:443", "*.example.org:443", "*.me.github.io:443", "me.github.io:443",
		"my-bucket.s3.amazonaws.com:443", "*.svc.cluster.local:80", "*.pythonhosted.org:443",
	} {
		if _, err := g.Check([]string{s}); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestAllowedBoundsPlans(t *testing.T) {
	g, _ := newGuard(t, Config{Allowed: []string{
		"one.example", "two.example:443", "*.three.example", "*.internal:80", "10.0.0.1",
		"[fd00::1]:5",
	}})
	for in, ok := range map[string]bool{
		"one.example:1": true, "ONE.example:443": true, "x.one.example:1": false, "*.one.example:1": false,
		"two.example:443": true, "two.example:80": false,
		"a.three.example:9": true, "a.b.three.example:9": true, "*.three.example:9": true, "*.b.three.example:9": true, "three.example:9": false,
		"xthree.example:9": false, "db.internal:80": true, "db.internal:81": false, "10.0.0.1:22": true, "10.0.0.2:22": false,
		"[fd00::1]:5": true, "[fd00::1]:6": false,
	} {
		_, err := g.Check([]string{in})
		if (err == nil) != ok || err != nil && palyra.AsError(err).Reason != palyra.ReasonEgressDenied {
			t.Errorf("%s: %v", in, err)
		}
		if _, err := g.Open(t.Context(), nil, palyra.Plan{Egress: []string{in}}); (err == nil) != ok {
			t.Errorf("open %s: %v", in, err)
		}
	}
}

// Whatever lies within a rule is covered by it.
func TestWithinIsCovered(t *testing.T) {
	label := rapid.SampledFrom([]string{"a", "b", "c"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(label, 2, 4).Draw(t, "labels"), ".")
	})
	one := rapid.Custom(func(t *rapid.T) rule {
		return rule{target{host{name: name.Draw(t, "name")}, rapid.IntRange(1, 2).Draw(t, "port")}, rapid.Bool().Draw(t, "below")}
	})
	rapid.Check(t, func(t *rapid.T) {
		inner, outer := one.Draw(t, "inner"), one.Draw(t, "outer")
		at := target{host{name: name.Draw(t, "at")}, rapid.IntRange(1, 2).Draw(t, "at port")}
		if inner.within(outer) && inner.covers(at) && !outer.covers(at) {
			t.Errorf("%v is within %v, which does not cover %v", inner, outer, at)
		}
		if again, err := parseRule(inner.String()); err != nil || again != inner {
			t.Errorf("%v: %v %v", inner, again, err)
		}
	})
}

func TestNewRefusesUnclearSettings(t *testing.T) {
	for name, c := range map[string]Config{
		"mode": {Mode: "loose"}, "host network": {HostNetwork: true}, "range": {PrivateRanges: make([]netip.Prefix, 1)},
		"mapped range": {PrivateRanges: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		"resolver":     {Resolver: "dns.example:53"}, "allowed": {Allowed: []string{"a b"}}, "allowed address": {Allowed: []string{"*.1.2.3.4"}},
		"upstream": {Upstream: "proxy:3128"}, "upstream scheme": {Upstream: "https://p.example:1"},
		"upstream port": {Upstream: "http://p.example"},
		"upstream path": {Upstream: "http://p.example:1/x"}, "upstream text": {Upstream: "http://u:s3cret@p .example:1"},
	} {
		_, err := New(c)
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonConfig || e.Remedy == "" || strings.Contains(e.Text, "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
