package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
)

// people answers questions, and is asked more of them when answers end.
type people struct {
	asked atomic.Int64
	say   chan Answer // what they say; closed: no
}

func (p *people) ask(ctx context.Context, _ *palyra.Call, _ string, _ int) (Answer, error) {
	p.asked.Add(1)
	select {
	case a, ok := <-p.say:
		if !ok {
			return Answer{}, errors.New("no")
		}
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

func (p *people) were(t *testing.T, times int64) {
	t.Helper()
	if n := p.asked.Load(); n != times {
		t.Errorf("people were asked %d times, not %d", n, times)
	}
}

// reach connects to other.example, which nobody granted, and talks to it.
func (b *bench) reach(door string) *net.TCPConn {
	b.Helper()
	c := ways[door](b, "other.example", 443)
	_, _ = io.WriteString(c, "SSH-2.0-x\r\n")
	if _, err := io.ReadFull(c, make([]byte, 11)); err != nil {
		b.Fatal(door, err)
	}
	return c
}

func TestAnAnswerThatIsTakenBack(t *testing.T) {
	eachDoor := []string{doorConnect, doorSOCKS, doorDirect}
	p := &people{say: make(chan Answer, 1)}
	g, w := newGuard(t, Config{Ask: p.ask})
	w.at(443, echo(t, ""))
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	revoked := make(chan struct{})
	p.say <- Answer{Grant: "first", Revoked: revoked}
	var conns []net.Conn
	for _, door := range eachDoor {
		conns = append(conns, b.reach(door))
	}
	inner, err := b.DialContext(t.Context(), "tcp", "other.example:443")
	if err != nil {
		t.Fatal(err)
	}
	_ = inner.SetDeadline(time.Now().Add(20 * time.Second))
	stays := ways[doorConnect](b, "good.example", 443)
	p.were(t, 1)
	close(revoked)
	for i, c := range append(conns, inner) {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection lives on:", i, err)
		}
	}
	_ = inner.Close()
	_, _ = io.WriteString(stays, "SSH-2.0-x\r\n")
	if _, err := io.ReadFull(stays, make([]byte, 11)); err != nil {
		t.Error("one that the plan grants was cut:", err)
	}
	p.say <- Answer{Grant: "second"}
	b.reach(doorConnect)
	p.were(t, 2)
	grants := map[palyra.GrantID]int{}
	for _, f := range b.end() {
		grants[f.Grant]++
	}
	if grants["first"] != len(eachDoor)+1 || grants["second"] != 1 || grants[""] != 1 {
		t.Errorf("%v: %+v", grants, b.flows)
	}
}

func TestAfterAnAnswerWasTakenBackNoIsNo(t *testing.T) {
	p := &people{say: make(chan Answer, 1)}
	g, w := newGuard(t, Config{Ask: p.ask})
	w.at(443, echo(t, ""))
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	revoked := make(chan struct{})
	p.say <- Answer{Revoked: revoked}
	b.reach(doorConnect)
	close(revoked)
	close(p.say)
	for range 3 {
		if _, code, _ := b.connectTo("other.example:443"); code != 403 {
			t.Error(code)
		}
	}
	p.were(t, 2)
	b.flow("other.example", palyra.FlowDenied)
}

// One that was taken back while the connection was being made.
func TestAnAnswerThatIsTakenBackMeanwhile(t *testing.T) {
	p := &people{say: make(chan Answer, 1)}
	g, w := newGuard(t, Config{Ask: p.ask})
	w.at(443, echo(t, ""))
	revoked := make(chan struct{})
	dial := g.dialTCP
	g.dialTCP = func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
		close(revoked)
		return dial(ctx, to)
	}
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	p.say <- Answer{Revoked: revoked}
	if _, code, _ := b.connectTo("other.example:443"); code != 403 {
		t.Error(code)
	}
	b.flow("other.example", palyra.FlowDenied)
}

func TestATimeboxedAnswer(t *testing.T) {
	var at atomic.Int64
	now := func() time.Time { return time.Unix(at.Load(), 0) }
	p := &people{say: make(chan Answer, 1)}
	g, w := newGuard(t, Config{Ask: p.ask, Now: now})
	w.at(443, echo(t, ""))
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	p.say <- Answer{Until: time.Unix(100, 0)}
	b.reach(doorConnect)
	at.Store(99)
	b.reach(doorDirect)
	p.were(t, 1)
	at.Store(100)
	p.say <- Answer{Until: time.Unix(200, 0)}
	b.reach(doorConnect)
	p.were(t, 2)
	at.Store(300)
	p.say <- Answer{Until: time.Unix(200, 0)} // over before it was given
	if _, code, _ := b.connectTo("other.example:443"); code != 403 {
		t.Error(code)
	}
	p.were(t, 3)
}

// Plain HTTP is decided request by request, also on a connection that stands.
func TestATimeboxedAnswerOnOneConnection(t *testing.T) {
	var at atomic.Int64
	p := &people{say: make(chan Answer, 1)}
	g, w := newGuard(t, Config{Ask: p.ask, Now: func() time.Time { return time.Unix(at.Load(), 0) }})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	p.say <- Answer{Until: time.Unix(100, 0), Grant: "first"}
	hc := b.client()
	for range 2 {
		if code, body := get(t, hc, "http://other.example/"); code != 200 {
			t.Fatal(code, body)
		}
	}
	at.Store(100)
	p.say <- Answer{Grant: "second"}
	if code, body := get(t, hc, "http://other.example/"); code != 200 {
		t.Fatal(code, body)
	}
	p.were(t, 2)
	flows := b.end()
	if len(flows) != 2 || flows[0].Grant != "first" || flows[1].Grant != "second" {
		t.Errorf("%+v", flows)
	}
}

// However short answers are, a run cannot go on asking.
func TestQuestionsAreBounded(t *testing.T) {
	p := &people{say: make(chan Answer)}
	g, w := newGuard(t, Config{Ask: func(context.Context, *palyra.Call, string, int) (Answer, error) {
		p.asked.Add(1)
		return Answer{Until: time.Unix(1, 0)}, nil
	}})
	b := openFor(t, g, w, &palyra.Call{}, "good.example:443")
	for i := range 2 * maxQuestions {
		if _, code, _ := b.connectTo(fmt.Sprintf("h%d.example:443", i%2)); code != 403 {
			t.Error(code)
		}
	}
	p.were(t, maxQuestions)
}
