package publish

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/hostport"
)

// freePort is a port of the loopback address that nobody has now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func ports(own ...int) *Ports { return New(own, slog.New(slog.DiscardHandler)) }

func call(id palyra.CallID, session palyra.SessionID, who palyra.Principal) *palyra.Call {
	return &palyra.Call{ID: id, Proposal: palyra.Proposal{Proposer: palyra.Proposer{Session: session, Principal: who}}}
}

// sockets makes what a cell would, in the network of the test; a port of the session is listened on elsewhere.
func sockets(t *testing.T, doors []cell.Listener) (files []*os.File, at []int) {
	t.Helper()
	for _, d := range doors {
		if d.Dial != 0 {
			family := unix.AF_INET
			if d.Dial < 0 {
				family = unix.AF_INET6
			}
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, os.NewFile(uintptr(fd), "dial"))
			continue
		}
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, l.Addr().(*net.TCPAddr).Port)
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		files = append(files, f)
	}
	return files, at
}

// publish opens a link that publishes a server.
func publish(t *testing.T, p *Ports, c *palyra.Call, host int, server string) *Link {
	t.Helper()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(server, "http://"))
	l, err := p.Open(c, palyra.Plan{Publish: []string{strconv.Itoa(host) + ":" + port}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	files, _ := sockets(t, l.Doors())
	if err := l.Serve(files); err != nil {
		t.Fatal(err)
	}
	return l
}

func get(port int) (string, error) {
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

func server(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(s.Close)
	return s.URL
}

// More connections than there are sockets, at once and one after the other, all get there; when the link is closed
// nothing listens any more, and the port can be published again.
func TestPublished(t *testing.T) {
	p, host := ports(), freePort(t)
	l := publish(t, p, call("A", "S", "agent:x"), host, server(t))
	var all sync.WaitGroup
	for range 3 * mostConns {
		all.Go(func() {
			if got, err := get(host); err != nil || got != "hello" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	open, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", host))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	l.Close()
	if _, err := get(host); err == nil {
		t.Error("the port is open after the end")
	}
	_ = open.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := open.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("a connection outlives its process: %v", err)
	}
	again, err := p.Open(call("A", "S", "agent:x"), palyra.Plan{Publish: []string{fmt.Sprintf("%d:1", host)}}, nil)
	if err != nil {
		t.Fatalf("the port is not free again: %v", err)
	}
	again.Close()
}

// holds is a server that keeps connections open until it is told to let go; it says when each has come.
func holds(t *testing.T, network, address string) (port int, came <-chan struct{}, letGo func()) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	arrived, end := make(chan struct{}, 1000), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			arrived <- struct{}{}
			all.Go(func() {
				<-end
				_ = c.Close()
			})
		}
	})
	letGo = sync.OnceFunc(func() { close(end) })
	t.Cleanup(func() {
		letGo()
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port, arrived, letGo
}

// fill takes every connection that a process can have, until the function it returns is called.
func fill(t *testing.T, host int, came <-chan struct{}) (end func()) {
	t.Helper()
	var open []net.Conn
	end = func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
	t.Cleanup(func() { end() })
	for range mostConns {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", host))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		<-came
	}
	return end
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Clients that come while every socket is in use, and go again, cost the daemon nothing; who comes after them is served
// once there is room.
func TestClientsThatDoNotWait(t *testing.T) {
	p, host := ports(), freePort(t)
	inside, came, letGo := holds(t, "tcp4", "127.0.0.1:0")
	publish(t, p, call("A", "S", "agent:x"), host, fmt.Sprintf("http://127.0.0.1:%d", inside))
	end := fill(t, host, came)
	files, routines := openFiles(t), runtime.NumGoroutine()
	for range 500 {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", host))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	if f, r := openFiles(t)-files, runtime.NumGoroutine()-routines; f > 10 || r > 10 {
		t.Errorf("500 clients that are gone keep %d files and %d goroutines", f, r)
	}
	last, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", host))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = last.Close() }()
	letGo()
	end()
	_ = last.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := last.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("who waited: %v", err)
	}
}

// Who comes to a server at ::1 alone while every socket is in use waits, as at 127.0.0.1.
func TestWaitingForTheOtherKind(t *testing.T) {
	six, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("UNPROVEN HERE: no IPv6")
	}
	_ = six.Close()
	p, host := ports(), freePort(t)
	inside, came, letGo := holds(t, "tcp6", "[::1]:0")
	publish(t, p, call("A", "S", "agent:x"), host, fmt.Sprintf("http://127.0.0.1:%d", inside))
	end := fill(t, host, came)
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", host))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Fatalf("it does not wait: %v", err)
	}
	letGo()
	end()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("who waited: %v", err)
	}
}

// Without sockets for IPv6 nobody waits for one.
func TestNoSocketsOfTheOtherKind(t *testing.T) {
	p, host := ports(), freePort(t)
	l, err := p.Open(call("A", "S", "agent:x"), palyra.Plan{Publish: []string{fmt.Sprintf("%d:%d", host, freePort(t))}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	doors := l.Doors()
	for i := range doors {
		doors[i].Dial = max(doors[i].Dial, -doors[i].Dial) // as a cell does where the kernel has none
	}
	files, _ := sockets(t, doors)
	if err := l.Serve(files); err != nil {
		t.Fatal(err)
	}
	if _, err := get(host); err == nil || os.IsTimeout(err) {
		t.Errorf("nobody is behind it: %v", err)
	}
}

// A call of the session reaches a port of it. Calls of other sessions, and of other principals, have no door to it.
func TestSessionReaches(t *testing.T) {
	p, host := ports(), freePort(t)
	l := publish(t, p, call("A", "S", "agent:x"), host, server(t))
	other, err := p.Open(call("B", "S", "agent:x"), palyra.Plan{}, nil)
	if err != nil || other == nil || len(other.Doors()) != 1 || other.Doors()[0].Addr.String() != fmt.Sprintf("127.0.0.1:%d", host) {
		t.Fatalf("%+v, %v", other, err)
	}
	defer other.Close()
	files, at := sockets(t, other.Doors())
	if err := other.Serve(files); err != nil {
		t.Fatal(err)
	}
	if got, err := get(at[0]); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	for name, c := range map[string]*palyra.Call{
		"another session": call("C", "T", "agent:x"), "another principal": call("C", "S", "agent:y"),
	} {
		if no, err := p.Open(c, palyra.Plan{}, nil); no != nil || err != nil {
			t.Errorf("%s: %v, %v", name, no, err)
		}
	}
	if same, err := p.Open(call("D", "S", "agent:x"), palyra.Plan{}, []cell.Listener{listener(host)}); same != nil || err != nil {
		t.Errorf("an address that is taken: %v, %v", same, err)
	}
	l.Close()
	if got, err := get(at[0]); err == nil {
		t.Errorf("the end of the process: %q", got)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", at[0]), time.Second)
		if errors.Is(err, unix.ECONNREFUSED) {
			break
		}
		if err == nil {
			_ = c.Close()
		}
		if time.Now().After(end) {
			t.Fatalf("clients are let wait where nobody answers any more: %v", err)
		}
	}
	if no, _ := p.Open(call("E", "S", "agent:x"), palyra.Plan{}, nil); no != nil {
		t.Error("a port that is closed is still known")
	}
}

// A process that is to listen at the number of another's port has no door there: its own port leads to itself.
func TestItsOwnServerListens(t *testing.T) {
	p, taken, next, host := ports(), freePort(t), freePort(t), freePort(t)
	publish(t, p, call("A", "S", "agent:x"), taken, server(t))
	publish(t, p, call("B", "S", "agent:x"), next, server(t))
	l, err := p.Open(call("C", "S", "agent:x"), palyra.Plan{Publish: []string{fmt.Sprintf("%d:%d", host, taken)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if doors := l.Doors(); slices.Contains(doors, listener(taken)) || !slices.Contains(doors, listener(next)) {
		t.Errorf("doors at %d, where its server listens, and %d: %v", taken, next, doors)
	}
}

// A port with nobody behind it refuses, and goes on to work when somebody is.
func TestNobodyBehind(t *testing.T) {
	p, host, inside := ports(), freePort(t), freePort(t)
	publish(t, p, call("A", "S", "agent:x"), host, fmt.Sprintf("http://127.0.0.1:%d", inside))
	for range 2 {
		if got, err := get(host); err == nil {
			t.Fatalf("%q", got)
		}
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "late") })}
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", inside))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	go func() { _ = s.Serve(l) }()
	if got, err := get(host); err != nil || got != "late" {
		t.Errorf("%q, %v", got, err)
	}
}

// A port that somebody has at ::1 alone is taken: who asks for localhost would reach either.
func TestTakenAtTheOtherLoopback(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("UNPROVEN HERE: no IPv6")
	}
	defer func() { _ = l.Close() }()
	host := l.Addr().(*net.TCPAddr).Port
	plan := palyra.Plan{Publish: []string{fmt.Sprintf("%d:80", host)}}
	got, err := ports().Open(call("A", "S", "agent:x"), plan, nil)
	if e := palyra.AsError(err); got != nil || e.Code != palyra.Conflict || !strings.Contains(e.Text, "is taken") || e.Remedy == "" {
		t.Errorf("%v, %v", got, err)
	}
	free, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", host))
	if err != nil {
		t.Fatalf("what was refused is still bound: %v", err)
	}
	_ = free.Close()
	_ = l.Close()
	if got, err = ports().Open(call("A", "S", "agent:x"), plan, nil); err != nil {
		t.Fatalf("once it is free: %v", err)
	}
	got.Close()
}

// What cannot be published is refused by name, with what to do: before anything is asked where Palyra knows it by itself.
// What somebody else has on this machine a plan does not tell.
func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken, own := l.Addr().(*net.TCPAddr).Port, freePort(t)
	p := ports(own)
	for name, c := range map[string]struct {
		ports []hostport.Pair
		code  palyra.Code
		says  string
	}{
		"low":     {[]hostport.Pair{{Host: 1023, Inside: 80}}, palyra.Denied, "1023"},
		"taken":   {[]hostport.Pair{{Host: taken, Inside: 80}}, palyra.Conflict, "taken"},
		"own":     {[]hostport.Pair{{Host: own, Inside: 80}}, palyra.Denied, "Palyra's own"},
		"twice":   {[]hostport.Pair{{Host: 40001, Inside: 1}, {Host: 40001, Inside: 2}}, palyra.Invalid, "twice"},
		"many":    {make([]hostport.Pair, MostPorts+1), palyra.Invalid, "too many"},
		"no port": {[]hostport.Pair{{Host: 40001}}, palyra.Invalid, "not a port"},
	} {
		var plan palyra.Plan
		for _, at := range c.ports {
			plan.Publish = append(plan.Publish, at.String())
		}
		l, err := p.Open(call("A", "S", "agent:x"), plan, nil)
		if l != nil {
			t.Errorf("%s is opened", name)
			l.Close()
		}
		checked := p.Check("S", c.ports)
		if name == "taken" {
			if checked != nil {
				t.Errorf("a plan tells what is taken: %v", checked)
			}
		} else if err = checked; err == nil {
			t.Errorf("%s is planned", name)
			continue
		}
		e := palyra.AsError(err)
		if e.Code != c.code || e.Reason != palyra.ReasonPortDenied || !strings.Contains(e.Text, c.says) || e.Remedy == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	host := freePort(t)
	publish(t, p, call("A", "S", "agent:x"), host, server(t))
	again := []hostport.Pair{{Host: host, Inside: 80}}
	if e := palyra.AsError(p.Check("S", again)); !strings.Contains(e.Text, "process A of this session") {
		t.Errorf("its own session: %+v", e)
	}
	if err := p.Check("T", again); err != nil {
		t.Errorf("another session's plan: %v", err)
	}
	_, err = p.Open(call("B", "T", "agent:x"), palyra.Plan{Publish: []string{again[0].String()}}, nil)
	if e := palyra.AsError(err); strings.Contains(e.Text, "A") || e.Code != palyra.Conflict {
		t.Errorf("another session: %+v", e)
	}
}
