package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"palyra"
)

// Whoever comes finds room, however much the others took.
func TestPlacesAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlaces(64)
		var seats []*seat
		for i := range rapid.IntRange(1, 8).Draw(t, "sessions") {
			seats = append(seats, &seat{whose: i % rapid.IntRange(1, 4).Draw(t, "principals")})
		}
		held := 0
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			s := rapid.SampledFrom(seats).Draw(t, "who")
			if s.held > 0 && rapid.IntRange(0, 9).Draw(t, "leaves") == 0 {
				p.give(s)
				held--
			} else if _, ok := p.try(s); ok {
				held++
			} else if s.held < ownPlaces {
				t.Fatal("a session has not even its own places")
			}
			if p.taken > p.most || held > p.most+len(seats)*ownPlaces {
				t.Fatalf("%d of %d are taken", p.taken, p.most)
			}
			for who, n := range p.by {
				if n > p.most/2 {
					t.Fatalf("%v has %d", who, n)
				}
			}
		}
		for _, s := range seats {
			for s.held > 0 {
				p.give(s)
			}
		}
		if p.taken != 0 || len(p.by) != 0 {
			t.Fatalf("%+v", p)
		}
	})
}

func TestSharesOfPlaces(t *testing.T) {
	p := newPlaces(60)
	for i, want := range []int{30, 15, 8, 4, 2, 1, 0, 0} { // each as many as are free then
		s := &seat{whose: i}
		for {
			if _, ok := p.try(s); !ok {
				break
			}
		}
		if s.held != ownPlaces+want {
			t.Errorf("number %d has %d", i, s.held)
		}
	}
	same, done := &seat{whose: 0}, make(chan bool)
	for range ownPlaces {
		if _, ok := p.try(same); !ok {
			t.Error("another session of the first has not even its own")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- p.take(ctx, same) }()
	cancel()
	if <-done {
		t.Error("it has more than its share")
	}
}

// Runs that hold connections without a word do not keep others from the network.
func TestSilentConnectionsDoNotStarveOthers(t *testing.T) {
	g, w := newGuard(t, Config{})
	g.places = newPlaces(64)
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	for i := range 4 {
		b := openFor(t, g, w, &palyra.Call{
			Proposal: palyra.Proposal{Proposer: palyra.Proposer{Principal: palyra.Principal(fmt.Sprint("p", i/2))}},
		}, "good.example:80")
		for range 64 {
			dialTo(t, b.at[0].String())
		}
		full(t, g, b)
	}
	for _, who := range []palyra.Principal{"p0", "p2"} { // one of theirs, and another's
		victim := openFor(t, g, w, &palyra.Call{Proposal: palyra.Proposal{Proposer: palyra.Proposer{Principal: who}}}, "good.example:80")
		if code, body := get(t, victim.client(), "http://good.example/"); code != 200 {
			t.Error(who, code, body)
		}
		victim.end()
	}
}

// full waits until a session gets no more places.
func full(t *testing.T, g *Guard, b *bench) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) {
		g.places.mu.Lock()
		done := b.seat.held >= ownPlaces && g.places.by[b.seat.whose] >= g.places.most-g.places.taken
		g.places.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v %+v", g.places, b.seat)
		}
	}
}

// Who waits for people holds no place.
func TestWaitingForAnAnswerHoldsNoPlace(t *testing.T) {
	waits, say := make(chan struct{}), make(chan struct{})
	g, w := newGuard(t, Config{MaxConns: 64, Ask: func(ctx context.Context, _ *palyra.Call, _ string, _ int) (Answer, error) {
		close(waits)
		select {
		case <-say:
			return Answer{}, nil
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
	}})
	g.places = newPlaces(16)
	w.at(7000, echo(t, ""))
	b := openFor(t, g, w, &palyra.Call{}, "good.example:7000")
	codes := make(chan int)
	for range 40 {
		go func() {
			c, code, _ := b.connectTo("other.example:7000")
			_ = c.Close()
			codes <- code
		}()
	}
	<-waits
	if c, code, _ := b.connectTo("good.example:7000"); code != 200 {
		t.Error(code)
	} else {
		_ = c.Close()
	}
	close(say)
	for range 40 {
		if code := <-codes; code != 200 {
			t.Error(code)
		}
	}
	b.end()
	if g.places.taken != 0 || b.seat.held != 0 {
		t.Errorf("%+v %+v", g.places, b.seat)
	}
}

// A receiver that never reads loses its connection, and its place.
func TestReceiversThatNeverRead(t *testing.T) {
	flood := strings.Repeat("x", 64<<20)
	for name, say := range map[string]string{
		"in a tunnel":  "SSH-2.0-x\r\n",
		"in an answer": "GET / HTTP/1.1\r\nHost: good.example:443\r\n\r\n",
	} {
		g, w := newGuard(t, Config{})
		g.times.idle, g.times.look = 200*time.Millisecond, 50*time.Millisecond
		ended := make(chan error, 1)
		w.at(443, serve(t, func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 100))
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"+flood)
			ended <- err
		}))
		b := open(t, g, w, "good.example:443")
		c := ways[doorConnect](b, "good.example", 443)
		_, _ = io.WriteString(c, say)
		if err := <-ended; err == nil {
			t.Error(name, "it was taken by somebody")
		}
		for end := time.Now().Add(20 * time.Second); len(b.slots) > 0 && time.Now().Before(end); {
			<-time.After(time.Millisecond)
		}
		if len(b.slots) > 0 {
			t.Error(name, "the place is still held")
		}
	}
}

// The same the other way: a server that never reads.
func TestServersThatNeverRead(t *testing.T) {
	g, w := newGuard(t, Config{})
	g.times.idle, g.times.look = 200*time.Millisecond, 50*time.Millisecond
	over := make(chan struct{})
	defer close(over)
	w.at(7000, serve(t, func(*net.TCPConn) { <-over }))
	b := open(t, g, w, "good.example:7000")
	c := ways[doorConnect](b, "good.example", 7000)
	if _, err := io.WriteString(c, "hello\n"+strings.Repeat("x", 64<<20)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// An answer ends a request whose body does not come, at once.
func TestAnEarlyAnswerEndsTheBody(t *testing.T) {
	for _, framing := range []string{"Content-Length: 100000\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
		g, w := newGuard(t, Config{})
		w.at(80, serve(t, func(c *net.TCPConn) {
			if _, err := c.Read(make([]byte, 4096)); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}))
		b := open(t, g, w, "good.example:80")
		got := talk(t, b.proxyConn(), "POST http://good.example/ HTTP/1.1\r\nHost: good.example\r\n"+b.authorization()+framing)
		if !strings.Contains(got, " 413 ") {
			t.Errorf("%q", got)
		}
		b.end()
	}
}

// A server that has begun to speak is stopped when the client turns out to send
// requests.
func TestATalkativeServerIsStopped(t *testing.T) {
	g, w := newGuard(t, Config{})
	w.at(8080, serve(t, func(c *net.TCPConn) {
		for {
			if _, err := io.WriteString(c, strings.Repeat("blah ", 1000)); err != nil {
				return
			}
		}
	}))
	b := open(t, g, w, "good.example:8080")
	c := ways[doorDirect](b, "good.example", 8080)
	if _, err := io.ReadFull(c, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: good.example:8080\r\n\r\n")
	for {
		if _, err := c.Read(make([]byte, 1<<20)); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Error("it goes on")
			}
			return
		}
	}
}
