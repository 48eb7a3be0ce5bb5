package egress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"palyra"
)

func permitFor(name string, port int) permit { return permit{target: named(name, port), check: true} }

// sums adds up what a host got, or all of them for "".
func sums(flows []palyra.EgressFlow, host string) (out int64) {
	for _, f := range flows {
		if host == "" || f.Host == host {
			out += f.Out
		}
	}
	return out
}

func TestTheLedgerKeepsEveryHost(t *testing.T) {
	l := newLedger(4)
	for i := range 100 {
		l.start(doorConnect, permitFor("a.example", 443), "1.1.1.1").out.Add(1)
		l.refuse(doorConnect, fmt.Sprintf("d%d.example", i), 443)
		l.refuse(doorConnect, "d0.example", 443)
		l.fail(doorConnect, permitFor(fmt.Sprintf("f%d.example", i), 443))
	}
	l.start(doorConnect, permitFor("b.example", 443), "1.1.1.2").out.Add(1000) // hidden behind a crowd?
	granted := permitFor("c.example", 443)
	granted.answer = &question{answer: Answer{Grant: "G"}}
	l.start(doorSOCKS, granted, "1.1.1.3").out.Add(7)
	flows, more := l.list()
	if sums(flows, "a.example") != 100 || sums(flows, "b.example") != 1000 || sums(flows, "") != 1107 {
		t.Errorf("%+v", flows)
	}
	if !slices.Contains(flows, palyra.EgressFlow{Host: "c.example", Port: 443, Out: 7, Verdict: palyra.FlowAllowed, Grant: "G"}) {
		t.Errorf("%+v", flows)
	}
	if len(flows) != 4+3+4+4 || more != 96+2+96+96+100 {
		t.Errorf("%d more %d: %+v", len(flows), more, flows)
	}
}

// Names below a suffix can be made up at will, but bytes cannot get lost.
func TestTheLedgerKeepsEveryByte(t *testing.T) {
	l := newLedger(4)
	for i := range 1000 {
		p := permitFor(fmt.Sprintf("h%d.example", i), 443)
		p.wild = true
		l.start(doorConnect, p, fmt.Sprintf("1.1.1.%d", i%200)).out.Add(1)
	}
	l.start(doorConnect, permitFor("b.example", 443), "1.1.1.2").out.Add(1000)
	flows, more := l.list()
	if sums(flows, "") != 2000 || sums(flows, "b.example") != 1000 || sums(flows, everyone) != 1000-8 || len(flows) != 4+4+1+1 || more != 997 {
		t.Errorf("more %d: %+v", more, flows)
	}
	if !slices.Contains(flows, palyra.EgressFlow{Host: everyone, Out: 1000 - 8, Verdict: palyra.FlowAllowed}) {
		t.Errorf("%+v", flows)
	}
}

// A run that fills its record with names that lead nowhere before it sends
// something away has that on record.
func TestNothingIsPushedOffTheRecord(t *testing.T) {
	g, w := newGuard(t, Config{MaxFlows: 8, MaxWildcard: 1 << 10})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	w.name("drop.wild.example", "127.0.0.1")
	b := open(t, g, w, "*.wild.example:80")
	for i := range 40 {
		c, code, _ := b.connectTo(fmt.Sprintf("n%d.wild.example:80", i))
		if code != 502 {
			t.Fatal(code)
		}
		_ = c.Close()
	}
	const secret = 60_000
	c, code, _ := b.connectTo("drop.wild.example:80")
	if code != 200 {
		t.Fatal(code)
	}
	if got := talk(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: drop.wild.example\r\nContent-Length: %d\r\n\r\n%s", secret,
		strings.Repeat("x", secret))); !strings.Contains(got, " 200 ") {
		t.Fatal(got)
	}
	if f := b.flow("drop.wild.example", palyra.FlowAllowed); f.Out < secret || f.Address != "127.0.0.1" || f.Door != doorConnect {
		t.Errorf("%+v", f)
	}
}

// The same with names that do lead somewhere: its bytes are there.
func TestEveryByteIsOnRecord(t *testing.T) {
	g, w := newGuard(t, Config{MaxFlows: 4})
	w.at(7000, echo(t, ""))
	b := open(t, g, w, "*.wild.example:7000")
	for i := range 20 {
		name := fmt.Sprintf("n%d.wild.example", i)
		w.name(name, "127.0.0.1")
		c, code, _ := b.connectTo(name + ":7000")
		if code != 200 {
			t.Fatal(code)
		}
		_, _ = io.WriteString(c, "ten bytes\n")
		if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	if flows := b.end(); sums(flows, "") != 200 || sums(flows, everyone) != 120 || b.more != 16 {
		t.Errorf("more %d: %+v", b.more, flows)
	}
}
