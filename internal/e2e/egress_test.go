//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// world is hosts outside: a name server that sends every name to loopback, a web
// server and a service that speaks first.
type world struct {
	dns  string
	web  string // host:port by which programs know the web server
	raw  string // the same for the other
	hits func() int
}

func newWorld(t *testing.T) world {
	t.Helper()
	hits := make(chan string, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits <- r.Host
		fmt.Fprintf(w, "hello from %s", r.Host)
	}))
	t.Cleanup(srv.Close)
	_, webPort, _ := net.SplitHostPort(srv.Listener.Addr().String())
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("220 ready\n"))
			_ = c.Close()
		}
	}()
	_, rawPort, _ := net.SplitHostPort(l.Addr().String())
	return world{
		dns: nameServer(t), web: "granted.example:" + webPort, raw: "granted.example:" + rawPort,
		hits: func() int { return len(hits) },
	}
}

// nameServer answers every question for an address with 127.0.0.1.
func nameServer(t testing.TB) string {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q := buf[:n]
			end := 12
			for end < n && q[end] != 0 {
				end += int(q[end]) + 1
			}
			end += 5 // the root, type and class
			if end > n {
				continue
			}
			a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
			if q[end-3] == 1 { // an A record is asked for
				a[7] = 1
				a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1)
			}
			_, _ = pc.WriteTo(a, from)
		}
	}()
	return pc.LocalAddr().String()
}

// guarded starts the daemon so that names lead to this world.
func (d *daemon) guarded(w world, more ...string) {
	d.t.Helper()
	d.mustStart(append([]string{"PALYRA_EGRESS_RESOLVER=" + w.dns, "PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8"}, more...)...)
}

// fetcher is a Go program that asks for a URL and knows no proxy.
const fetcher = `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	c := &http.Client{Transport: &http.Transport{}}
	r, err := c.Get(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b, _ := io.ReadAll(r.Body)
	fmt.Println(string(b))
}
`

// A granted host is reached by proxies and by programs that know none; every
// other host, the host's own services and other protocols are not. What went
// through and what was refused is in the attestation.
func TestOnlyGrantedHostsAreReached(t *testing.T) {
	t.Parallel()
	d, w := newDaemon(t), newWorld(t)
	d.ownWork()
	build := exec.Command("go", "build", "-o", filepath.Join(d.work, "fetcher"), d.put("fetcher.go", fetcher))
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.give(filepath.Join(d.work, "fetcher"))
	d.guarded(w, "PALYRA_EGRESS_ASK=off")
	host, port, _ := net.SplitHostPort(w.web)
	_, rawPort, _ := net.SplitHostPort(w.raw)
	grant := map[string]any{"egress": []string{w.web, w.raw}}
	url := "http://" + w.web + "/"
	for name, c := range map[string]struct{ script, want string }{
		"curl by the proxy": {"curl -sS --max-time 20 " + url, "hello from " + w.web},
		"curl without":      {"curl -sS --max-time 20 --noproxy '*' " + url, "hello from " + w.web},
		"curl by socks":     {`curl -sS --max-time 20 --proxy "socks5h${ALL_PROXY#http}" ` + url, "hello from " + w.web},
		"node": {`node -e 'fetch("` + url +
			`").then(r=>r.text()).then(console.log).catch(e=>{console.log(e.cause||e);process.exit(1)})'`, "hello from " + w.web},
		"go": {"./fetcher " + url, "hello from " + w.web},
		"python by a plain socket": {fmt.Sprintf(`python3 -c '
import socket
s=socket.create_connection(("%s",%s),20)
print(s.recv(100).decode())'`, host, rawPort), "220 ready"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, _ := json.Marshal(map[string]any{"script": c.script, "tier": "c", "egress": grant["egress"]})
			out, _ := d.allowed(client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI})
			if out.ExitCode != 0 || !strings.Contains(out.Stdout, c.want) {
				t.Fatalf("%d %s %s\nstdout: %s\nstderr: %s", out.ExitCode, out.ReasonCode, out.Reason, out.Stdout, out.Stderr)
			}
			flows := predicate(t, out).Egress
			if !slices.ContainsFunc(flows, func(f palyra.EgressFlow) bool {
				return f.Host == host && f.Verdict == "allow" && f.Address == "127.0.0.1" && f.In > 0
			}) {
				t.Errorf("flows %+v", flows)
			}
		})
	}
	before := w.hits()
	for name, c := range map[string]struct{ script, host string }{
		"another host by the proxy": {"curl -sS --max-time 20 http://other.example:" + port + "/", "other.example"},
		"another host without":      {"curl -sS --max-time 20 --noproxy '*' http://other.example/", "other.example"},
		"another port":              {"curl -sS --max-time 20 http://" + host + ":1/", host},
		"the host's loopback":       {"curl -sS --max-time 20 --noproxy '*' http://127.0.0.1:" + port + "/", ""},
		"loopback by the proxy":     {"curl -sS --max-time 20 --noproxy '' http://127.0.0.1:" + port + "/", "127.0.0.1"},
		"an address":                {"curl -sS --max-time 20 --noproxy '*' http://192.0.2.1/", ""},
		"a lying Host header":       {"curl -fsS --max-time 20 -H 'Host: other.example' " + url, ""},
		"udp": {`python3 -c '` +
			"import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.settimeout(2)\n" +
			"s.sendto(b\"x\",(\"192.0.2.1\",53))\nprint(s.recv(9))'", ""},
	} {
		t.Run(name, func(t *testing.T) {
			raw, _ := json.Marshal(map[string]any{
				"script": c.script + " | grep -v egress_denied | grep -i hello", "tier": "c",
				"egress": grant["egress"],
			})
			out, _ := d.allowed(client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI})
			if out.Outcome != palyra.OutcomeFinished || out.ExitCode == 0 || strings.Contains(out.Stdout, "hello") {
				t.Fatalf("it got through: %+v", out)
			}
			denied := slices.ContainsFunc(predicate(t, out).Egress, func(f palyra.EgressFlow) bool {
				return f.Host == c.host &&
					f.Verdict == "deny"
			})
			if c.host != "" && !denied {
				t.Errorf("the refusal is not on record: %+v\nstderr %s", predicate(t, out).Egress, out.Stderr)
			}
		})
	}
	if n := w.hits(); n != before {
		t.Errorf("%d requests got through", n-before)
	}
}

// A host that was not granted is asked for while the connection waits, and the
// run's clock stands still; the answer for the session holds for the next run as
// well.
func TestAHostIsAskedForOnTheWay(t *testing.T) {
	t.Parallel()
	d, w := newDaemon(t), newWorld(t)
	d.ownWork()
	d.guarded(w)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	script := "u=http://" + w.web + "/; curl -sS --max-time 60 $u" // no word of it names the host
	raw, _ := json.Marshal(map[string]any{"script": script, "tier": "c"})
	const wall = 6 * time.Second
	r := client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI, Timeout: wall}
	type ending struct {
		out palyra.Outcome
		err error
	}
	asked, ch := make(chan palyra.ApprovalID, 8), make(chan ending, 1)
	go func() {
		out, err := agent.Call(t.Context(), r, func(e client.CallEvent) {
			if e.ApprovalRequested != nil {
				asked <- e.ApprovalRequested.ApprovalID
			}
		})
		ch <- ending{out, err}
	}()
	next := func() palyra.Approval {
		t.Helper()
		select {
		case id := <-asked:
			return d.approval(person, id)
		case end := <-ch:
			t.Fatalf("it ended: %+v\n%s", end, d.log)
		}
		return palyra.Approval{}
	}
	a := next()
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeSession, 0)); err != nil {
		t.Fatal(err)
	}
	host := next() // who follows the call hears of it
	if !strings.Contains(host.Prompt.Summary, w.web) || !slices.Equal(host.Plan.Egress, []string{w.web}) {
		t.Errorf("the question is %+v, %v", host.Prompt, host.Plan.Egress)
	}
	<-time.After(wall + time.Second) // people take their time: it is not the run's
	if _, err := person.Decide(t.Context(), allow(host, palyra.ScopeSession, 0)); err != nil {
		t.Fatal(err)
	}
	end := <-ch
	if end.err != nil || end.out.ExitCode != 0 || !strings.Contains(end.out.Stdout, "hello") {
		t.Fatalf("%v %+v\n%s", end.err, end.out, d.log)
	}
	out, err := agent.Call(t.Context(), r, nil) // both answers are for the session
	if err != nil || out.ExitCode != 0 || !strings.Contains(out.Stdout, "hello") {
		t.Fatalf("%v %+v", err, out)
	}
	d.verify()
}

// A command that names its host is asked about once: the host is in the plan that was
// shown. Any other that it goes to is asked about as ever.
func TestANamedHostIsAskedForOnce(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.ownWork()
	d.guarded(w)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	_, port, _ := net.SplitHostPort(w.web)
	other := net.JoinHostPort("other.example", port)
	for _, c := range []struct {
		script, host string
		want         [][]string
	}{
		{"curl -sS --max-time 60 http://" + w.web + "/", w.web, [][]string{{w.web}}},
		{"o=http://" + other + "/ && curl -sS --max-time 60 $o", other, [][]string{nil, {other}}},
	} {
		raw, _ := json.Marshal(map[string]any{"script": c.script, "tier": "c"})
		r := client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
		var asked [][]string
		out, err := agent.Call(t.Context(), r, func(e client.CallEvent) {
			if e.ApprovalRequested == nil {
				return
			}
			a := d.approval(person, e.ApprovalRequested.ApprovalID)
			asked = append(asked, a.Plan.Egress)
			if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
				t.Error(err)
			}
		})
		if err != nil || out.ExitCode != 0 || !strings.Contains(out.Stdout, "hello from "+c.host) ||
			!slices.EqualFunc(asked, c.want, slices.Equal) {
			t.Errorf("%s: asked %q, want %q: %v %+v\n%s", c.script, asked, c.want, err, out, d.log)
		}
	}
}

// Two runs of a session that wait for the same host wait for one answer, which says how
// many do; an answer for one use is taken once, whoever comes first.
func TestRunsThatWaitForOneHostShareAQuestion(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.ownWork()
	d.guarded(w)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	ended := make(chan palyra.Outcome, 2)
	hosts := map[palyra.ApprovalID]int{}
	asked := make(chan palyra.ApprovalID, 8)
	for _, name := range []string{"one", "two"} {
		raw, _ := json.Marshal(map[string]any{"script": "echo " + name + "; at=http://" + w.web + "/; curl -sS --max-time 60 $at", "tier": "c"})
		r := client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
		go func() {
			out, err := agent.Call(t.Context(), r, func(e client.CallEvent) {
				if e.ApprovalRequested != nil {
					asked <- e.ApprovalRequested.ApprovalID
				}
			})
			if err != nil {
				t.Error(err)
			}
			ended <- out
		}()
	}
	for heard := 0; heard < 2; { // both runs are let go, and both wait for the host
		a := d.approval(person, <-asked)
		if len(a.Plan.Egress) > 0 {
			hosts[a.ID]++
			heard++
			continue
		}
		if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if len(hosts) != 1 {
		t.Fatalf("questions about the host: %v", hosts)
	}
	for id := range hosts {
		a := d.approval(person, id)
		if a.Waiting != 2 || !slices.Equal(a.Plan.Egress, []string{w.web}) {
			t.Errorf("%d wait for %v", a.Waiting, a.Plan.Egress)
		}
		if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
			t.Fatal(err)
		}
	}
	reached, spent := 0, 0
	for range 2 {
		switch out := <-ended; {
		case strings.Contains(out.Stdout, "hello"):
			reached++
		case strings.Contains(out.Stdout, "has ended: spent"):
			spent++
		default:
			t.Error(out.Stdout, out.Stderr)
		}
	}
	if reached != 1 || spent != 1 {
		t.Errorf("%d runs reached the host by an answer for one use, %d were told that it is spent", reached, spent)
	}
	d.verify()
}

// approval looks a question up, whole.
func (d *daemon) approval(person *client.Client, id palyra.ApprovalID) palyra.Approval {
	d.t.Helper()
	a, err := person.Approval(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// The fetch tool uses the same guard.
func TestFetchGoesThroughTheGuard(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.guarded(w)
	raw, _ := json.Marshal(map[string]any{"url": "http://" + w.web + "/x"})
	out, _ := d.allowed(client.CallRequest{Tool: "palyra.http.fetch", Arguments: raw, Surface: palyra.SurfaceCLI})
	var got struct {
		Status int    `json:"status"`
		Body   string `json:"body"`
	}
	if err := json.Unmarshal(out.Output, &got); err != nil || got.Status != 200 || !strings.Contains(got.Body, "hello from "+w.web) {
		t.Fatalf("%v: %+v", err, out)
	}
	if f := predicate(t, out).Egress; len(f) != 1 || f[0].Door != "fetch" || f[0].Verdict != "allow" || f[0].Address != "127.0.0.1" {
		t.Errorf("flows %+v", f)
	}
}
