package fetch

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/plan"
	"palyra/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a network: servers by host:port. It implements Session for one plan
// after the other, as strictly as the guard does.
type world struct {
	testing.TB
	at    map[string]string // host:port → listener
	roots *x509.CertPool
	hosts Hosts

	mu     sync.Mutex
	dialed []string
	flows  []palyra.EgressFlow // as told to Env.Flow
	opened int
	closed int
}

func newWorld(t testing.TB) *world {
	return &world{TB: t, at: map[string]string{}, roots: x509.NewCertPool()}
}

// serve puts a server at a host:port, with TLS or without.
func (w *world) serve(at string, secure bool, h http.HandlerFunc) *httptest.Server {
	w.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if secure {
		s.StartTLS()
		w.roots.AddCert(s.Certificate())
	} else {
		s.Start()
	}
	w.Cleanup(s.Close)
	w.at[at] = s.Listener.Addr().String()
	return s
}

// raw puts a server at a host:port that says to each connection what it is told
// and closes it.
func (w *world) raw(at string, talk func(net.Conn)) {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				talk(c)
			})
		}
	})
	w.Cleanup(func() { l.Close(); all.Wait() })
	w.at[at] = l.Addr().String()
}

type session struct {
	*world
	plan palyra.Plan

	flows []palyra.EgressFlow
	conns []net.Conn
}

func (w *world) open(_ context.Context, p palyra.Plan) (Gateway, error) {
	w.opened++
	return &session{world: w, plan: p}, nil
}

// DialContext implements Session.
func (s *session) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed = append(s.dialed, addr)
	host, _, _ := net.SplitHostPort(addr)
	f := palyra.EgressFlow{Door: "fetch", Host: host, Verdict: "allow"}
	defer func() { s.flows = append(s.flows, f) }()
	if network != "tcp" || !slices.Contains(s.plan.Egress, addr) {
		f.Verdict = "deny"
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "no way to %s", addr)
	}
	to, ok := s.at[addr]
	if !ok {
		return nil, errors.New("no such host")
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, to)
	if err == nil {
		s.conns = append(s.conns, c)
	}
	return c, err
}

// Close implements Session.
func (s *session) Close() ([]palyra.EgressFlow, int64) {
	s.closed++
	for _, c := range s.conns {
		_ = c.Close()
	}
	return s.flows, 0
}

// args are a call's arguments.
type args map[string]any

func (w *world) config() Config {
	if w.at == nil {
		return Config{}
	}
	return Config{Open: w.open, Roots: w.roots, Hosts: w.hosts}
}

// plan resolves a call as the daemon does.
func (w *world) plan(name palyra.ToolName, a args) (palyra.Plan, error) {
	w.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		w.Fatal(err)
	}
	return w.planRaw(name, raw)
}

type nowhere struct{}

func (nowhere) Resolve(context.Context, string, int64) (palyra.WorkspaceRef, error) {
	return palyra.WorkspaceRef{Path: "/w", Known: true}, nil
}

func (w *world) planRaw(name palyra.ToolName, raw []byte) (palyra.Plan, error) {
	w.Helper()
	set, err := tool.NewSet(All(w.config())...)
	if err != nil {
		w.Fatal(err)
	}
	r, err := plan.New(plan.Config{Workspaces: nowhere{}, Drivers: []plan.Driver{set}})
	if err != nil {
		w.Fatal(err)
	}
	return r.Resolve(context.Background(), &palyra.Call{ID: "C", Proposal: palyra.Proposal{
		Proposer: palyra.Proposer{Parent: "P", Purpose: "run npm"}, Tool: name, Arguments: raw,
	}})
}

// fetch plans and runs a call.
func (w *world) fetch(a args) (result, error) { return w.fetchIn(context.Background(), a) }

func (w *world) fetchIn(ctx context.Context, a args) (result, error) {
	w.Helper()
	p, err := w.plan(Name, a)
	if err != nil {
		return result{}, err
	}
	env := tool.Env{Flow: func(f palyra.EgressFlow) { w.flows = append(w.flows, f) }}
	out, err := fetcher{w.config()}.Run(ctx, env, p)
	if w.opened != w.closed {
		w.Errorf("%d sessions opened, %d closed", w.opened, w.closed)
	}
	if err != nil {
		if out != nil {
			w.Errorf("an error and an answer: %s", out)
		}
		return result{}, err
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		w.Fatal(err)
	}
	return r, nil
}

// must is fetch that has to succeed.
func (w *world) must(a args) result {
	w.Helper()
	r, err := w.fetch(a)
	if err != nil {
		w.Fatalf("%v: %v (%v)", a, err, errors.Unwrap(err))
	}
	return r
}

// refused is fetch that has to fail with the reason, saying something.
func (w *world) refused(want palyra.Reason, says string, a args) {
	w.Helper()
	_, err := w.fetch(a)
	w.wants(a, err, want, says)
}

func (w *world) wants(a any, err error, want palyra.Reason, says string) {
	w.Helper()
	e := palyra.AsError(err)
	if err == nil || e.Reason != want || !strings.Contains(e.Text+" / "+e.Remedy, says) {
		w.Errorf("%v: %q, remedy %q (%v); want %s with %q", a, e.Text, e.Remedy, e.Cause, want, says)
	}
}

func (r result) text() string {
	if r.Body == nil {
		return "(none)"
	}
	return *r.Body
}

func toolEnv() tool.Env { return tool.Env{Flow: func(palyra.EgressFlow) {}} }
