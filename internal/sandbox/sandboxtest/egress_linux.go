package sandboxtest

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
)

// granted is the only name that the runs of this class may reach.
const granted = "granted.example"

// egress: through the real guard a run reaches what its plan names and nothing else, by any of its doors.
func egress(t *testing.T, b *bench) {
	if b.lacks(t, ownNetwork) {
		return // the class sockets shows that there is none at all
	}
	guard := b.Guard(t, names(t))
	open, shut := port(b.greet(t, "tcp4", "127.0.0.1:0")), port(b.greet(t, "tcp4", "127.0.0.1:0"))
	plan := palyra.Plan{Tier: b.backend.Tier(), Egress: []string{granted + ":" + open}}
	call := &palyra.Call{ID: palyra.CallID("C" + random()), Plan: plan}
	g, err := guard.Open(t.Context(), call, plan)
	check(t, err)
	o := order{env: g.Env(), change: func(j *sandbox.Job) { j.Doors, j.Open = g.Doors(), g.Serve }}
	ways := []string{
		"dial tcp " + granted + ":" + open, "through connect " + granted + ":" + open + " HTTPS_PROXY",
		"through socks " + granted + ":" + open + " ALL_PROXY",
	}
	for _, v := range b.allowAs(t, o, ways...) {
		if v.Got != b.secret {
			t.Errorf("%s: got %q", v.Op, v.Got)
		}
	}
	flows, _ := g.Close()
	ofVerdict(t, flows, granted, "allow", len(ways))

	g, err = guard.Open(t.Context(), call, plan)
	check(t, err)
	o.env = append(g.Env(), "BAD_PROXY="+wrongToken(t, g.Env()))
	b.denyAs(t, o, ungranted(open, shut))
	flows, _ = g.Close()
	ofVerdict(t, flows, "other.example", "deny", 3) // what it asked for by name; a port that is no door answers nobody
	for _, f := range flows {
		if f.Verdict != "deny" || f.Address != "" {
			t.Errorf("%+v", f)
		}
	}
}

func ungranted(open, shut string) []denial {
	all := []denial{
		{"reach the guard without its token", "through connect " + granted + ":" + open + " BAD_PROXY", "", unshown},
		{"look up a record that is no address", "query 198.18.0.1:53", "", unshown},
		{"reach an ungranted host directly", "dial tcp other.example:" + open, "", unshown},
		{"reach an ungranted host's web server directly", `say tcp other.example:80 GET_/_HTTP/1.1\nHost:_other.example\n\n`, "", unshown},
		{"reach the host's loopback directly", "dial tcp 127.0.0.1:" + open, "", works},
		{"reach an address of the range directly", "dial tcp 198.18.0.200:" + open, "", unshown},
	}
	for _, to := range []string{
		"other.example:" + open, granted + ":" + shut, "127.0.0.1:" + open, "localhost:" + open, "[::1]:" + open, "[::ffff:127.0.0.1]:" + open,
		"169.254.169.254:80", "0.0.0.0:" + open, "2130706433:" + open, granted + ".evil.example:" + open, "x" + granted + ":" + open,
	} {
		all = append(all,
			denial{"reach " + shown(to, open, shut) + " by CONNECT", "through connect " + to + " HTTPS_PROXY", "", unshown},
			denial{"reach " + shown(to, open, shut) + " by SOCKS", "through socks " + to + " ALL_PROXY", "", unshown})
	}
	return all
}

// wayOut: the result says where a run went.
func wayOut(t *testing.T, d *desk) {
	to := granted + ":" + port(d.greet(t, "tcp4", "127.0.0.1:0"))
	p := d.plan(t, nil, d.probe, "try", "dial", "tcp", to, "+", "through", "connect", "other.example:443", "HTTPS_PROXY")
	p.Egress = []string{to}
	res := d.run(t, t.Context(), p)
	if d.lacks(t, ownNetwork) {
		if res.Refusal == nil || res.Refusal.Reason != palyra.ReasonEgressDenied {
			t.Errorf("a plan with hosts is run where there is no network: %+v", res)
		}
		return
	}
	got := verdicts(t, string(res.Stdout), 2)
	if got[0].Got != d.secret || got[1].Errno == "" {
		t.Errorf("%+v, refusal %+v", got, res.Refusal)
	}
	ofVerdict(t, res.Egress, granted, "allow", 1)
	ofVerdict(t, res.Egress, "other.example", "deny", 1)
}

// shown is an address without its port, which is another every time.
func shown(to, open, shut string) string {
	return strings.NewReplacer(":"+open, "", ":"+shut, " at another port").Replace(to)
}

func ofVerdict(t *testing.T, flows []palyra.EgressFlow, host string, verdict palyra.FlowVerdict, least int) {
	t.Helper()
	n := 0
	for _, f := range flows {
		if f.Host == host && f.Verdict == verdict {
			n++
		}
	}
	if n < least {
		t.Errorf("%d flows to %s with verdict %s, want %d: %+v", n, host, verdict, least, flows)
	}
}

// wrongToken is the proxy's address with another password.
func wrongToken(t *testing.T, env []string) string {
	t.Helper()
	for _, v := range env {
		if text, ok := strings.CutPrefix(v, "HTTPS_PROXY="); ok {
			u, err := url.Parse(text)
			check(t, err)
			u.User = url.UserPassword(u.User.Username(), "guessed")
			return u.String()
		}
	}
	t.Fatal("the guard names no proxy")
	return ""
}

// names is a resolver for which every name is this host.
func names(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(answer(buf[:n]), from)
		}
	}()
	return c.LocalAddr().String()
}

// answer says 127.0.0.1 to a question for an address of version 4, and nothing to any other.
func answer(q []byte) []byte {
	const header, typeA = 12, 1
	end := header
	for end < len(q) && q[end] != 0 {
		end += int(q[end]) + 1
	}
	end += 5 // the zero, type and class
	if len(q) < header || end > len(q) {
		return nil
	}
	a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[header:end]...)
	if int(q[end-4])<<8|int(q[end-3]) == typeA {
		a[7] = 1
		a = append(a, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1)
	}
	return a
}
