package egress

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"palyra"
	"palyra/internal/egress/sniff"
)

// A name server outside, as an operator can name one.
func TestAResolverOfTheOperators(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	var done sync.WaitGroup
	t.Cleanup(func() { _ = c.Close(); done.Wait() })
	done.Go(func() {
		for buf := make([]byte, 1500); ; {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			var p dnsmessage.Parser
			h, err := p.Start(buf[:n])
			q, qerr := p.Question()
			if err != nil || qerr != nil {
				continue
			}
			mu.Lock()
			asked = append(asked, q.Name.String())
			mu.Unlock()
			m := dnsmessage.Message{
				Header:    dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true},
				Questions: []dnsmessage.Question{q},
			}
			head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
			switch {
			case q.Name.String() != "made.up.example.":
				m.RCode = dnsmessage.RCodeNameError
			case q.Type == dnsmessage.TypeA:
				m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			out, _ := m.Pack()
			_, _ = c.WriteTo(out, from)
		}
	})
	g, err := New(Config{Resolver: c.LocalAddr().String(), PrivateRanges: loopback})
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.addresses(t.Context(), named("made.up.example", 443), false)
	if err != nil || len(got) != 1 || got[0].String() != "127.0.0.1" {
		t.Errorf("%v %v", got, err)
	}
	_, err = g.addresses(t.Context(), named("gone.example", 443), false)
	if e := palyra.AsError(err); e.Code != palyra.NotFound || e.Remedy == "" {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if slices.ContainsFunc(asked, func(s string) bool { return s != "made.up.example." && s != "gone.example." }) {
		t.Errorf("names were made longer: %v", asked)
	}
}

// More questions than are answered in a second: the rest waits or is lost, and
// nothing breaks.
func TestAFloodOfQuestions(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	c, err := net.Dial("udp", b.at[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := packQuery(t, "good.example", dnsmessage.TypeA)
	start, answered := time.Now(), 0
	buf := make([]byte, 512)
	for time.Since(start) < 900*time.Millisecond {
		_, _ = c.Write(q)
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Read(buf); err == nil {
			answered++
		}
	}
	if answered > 2*queryRate { // two seconds can be touched
		t.Errorf("%d answers in less than a second", answered)
	}
	b.synthetic("good.example")
	b.untouched()
}

// What a client sends when the server asked for a second ClientHello.
func TestAfterARetry(t *testing.T) {
	retry := "\x16\x03\x03\x00\x58\x02\x00\x00\x54\x03\x03" + sniff.RetryRandom + strings.Repeat("\x00", 50)
	good := string(helloFor(t, "good.example"))
	const cipher, data, alert = "\x14\x03\x03\x00\x01\x01", "\x17\x03\x03\x00\x04abcd", "\x15\x03\x03\x00\x02\x01\x00"
	for name, tc := range map[string]struct {
		say    string
		passes bool
	}{
		"at once": {good, true}, "after the dummy": {cipher + good, true}, "after early data": {cipher + data + alert + good, true},
		"another name": {string(helloFor(t, "evil.example")), false}, "another name, after early data": {cipher + data +
			string(helloFor(t, "evil.example")), false},
		"in pieces": {string(splitRecord([]byte(good), 9)), true}, "another name in pieces": {
			string(splitRecord(helloFor(t, "evil.example"), 9)), false,
		},
		"nonsense": {"GET / HTTP/1.1\r\n", false}, "an odd record": {"\x18\x03\x03\x00\x01\x01" + good, false},
		"an empty record": {"\x14\x03\x03\x00\x00" + good, false},
	} {
		g, w := newGuard(t, Config{})
		got := make(chan string, 1)
		w.at(443, serve(t, func(c *net.TCPConn) {
			if _, err := io.ReadFull(c, make([]byte, len(good))); err != nil {
				return
			}
			_, _ = io.WriteString(c, retry)
			all, _ := io.ReadAll(c)
			got <- string(all)
		}))
		b := open(t, g, w, "good.example:443")
		c := ways[doorDirect](b, "good.example", 443)
		_, _ = io.WriteString(c, good)
		if _, err := io.ReadFull(c, make([]byte, len(retry))); err != nil {
			t.Fatal(name, err)
		}
		_, _ = io.WriteString(c, tc.say+data)
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		all := <-got
		if tc.passes && all != tc.say+data || !tc.passes && (strings.Contains(all, "evil") || strings.Contains(all, "GET")) {
			t.Errorf("%s: %q", name, all)
		}
	}
}
