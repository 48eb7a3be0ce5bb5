// Package upstream keeps MCP servers whose tools are offered behind the gate.
//
// Words: an upstream is a server as an operator added it; its definition is what decides what runs, and has a
// digest; a tool of it is pinned when an operator approved it, by the digest of its own definition. What is offered
// is what is pinned and still the same; a tool that is new or has changed is in quarantine until somebody looks at
// it, and one that cannot be offered at all is refused. A session is one connection to a server.
//
// Promises. A server is started only as its signed definition says, in a room of its own or through the egress
// guard; its start is resolved anew every time. A call reaches it only with a grant for this very call, while
// definition, program and tool are those of the plan. What a server sends is bounded: the length of a message, the
// number of tools and pages, texts and schemas, messages that nobody asked for, the time. It is asked for tools and
// nothing else: what it asks of us is refused. Hints of a server never make a call count as less than it may do.
// The registry is durable; a change is journaled in the transaction that makes it.
//
// What it does not do. It does not judge calls, nor look into what a tool brings back: whoever wrote the server
// chose it. That a server does what its tools' descriptions say is nobody's promise.
//
// Its words are those of docs/words.md.
package upstream

import (
	"context"
	"embed"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"palyra"
	"palyra/internal/mask"
	"palyra/internal/store"
)

//go:embed schema
var schema embed.FS

// Schema returns the part's tables.
func Schema() store.Schema { return store.SchemaOf("upstream", schema) }

// Launcher starts the programs of stdio servers.
type Launcher interface {
	// Resolve returns the plan by which the server of a definition would run now.
	// Equal worlds give equal plans. It changes nothing.
	Resolve(ctx context.Context, name string, d palyra.UpstreamDefinition) (palyra.Plan, error)
	// Start runs it. The context bounds the start only.
	Start(ctx context.Context, name string, p palyra.Plan) (Process, error)
	// Forget removes what servers of this name left behind.
	Forget(name string) error
}

// FlowSource is what goes out for a session, as the guard sees it.
type FlowSource interface {
	// Flows is what went through so far; more says how many flows are not listed.
	Flows() (flows []palyra.EgressFlow, more int64)
}

// Process is the program of a stdio server.
type Process interface {
	FlowSource
	// Pipes are its stdin and stdout.
	Pipes() (io.WriteCloser, io.ReadCloser)
	// Done is closed when nothing of it is left.
	Done() <-chan struct{}
	// Stop ends it, and does not wait.
	Stop(reason string)
	// Last is how it ended, once Done is closed, and the end of what it wrote on stderr, at any time.
	Last() (ended string, stderr []byte)
	// Held is what runs it, and what holds.
	Held() (executor string, e palyra.Enforcement)
}

// Network is the way to HTTP servers.
type Network interface {
	// Check returns host:port entries in their one form, or refuses them.
	Check(hosts []string) ([]string, error)
	// Open makes a way out to the hosts of a plan.
	Open(ctx context.Context, p palyra.Plan) (Way, error)
}

// Way is a way out for one session.
type Way interface {
	FlowSource
	// DialContext connects to host:port, or refuses it.
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	// Close ends every connection and returns what went through.
	Close() (flows []palyra.EgressFlow, more int64)
}

// Catalog is where the tools are offered.
type Catalog interface {
	// Usable refuses a tool that cannot be offered because its schema is not valid.
	Usable(t palyra.Tool) error
	// Offer replaces the tools of a group; it refuses names that others have.
	Offer(group string, tools []palyra.Tool) error
	// List returns every tool.
	List() []palyra.Tool
}

// ArtifactStore keeps outputs that are too large to deliver, and images.
type ArtifactStore interface {
	// Keep stores data for a session and returns its id.
	Keep(ctx context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error)
}

// Config wires a Registry. Zero times get the defaults.
type Config struct {
	DB        *store.DB
	Journal   store.Recorder
	Launcher  Launcher
	Network   Network
	Catalog   Catalog
	Artifacts ArtifactStore
	Secrets   Secrets      // nil: there are none to use
	Mask      *mask.Masker // masks what servers answer, before anything is kept of it; may be nil
	Version   string
	Now       func() time.Time
	Log       *slog.Logger

	Start time.Duration // from the start to the list of tools; default 30 s
	Idle  time.Duration // without a call before a server is stopped; default 10 min
	First time.Duration // back-off after the first failure; default 1 s, then doubled
	Most  time.Duration // back-off at most; default 5 min
}

const (
	maxUpstreams = 64
	defaultStart = 30 * time.Second
	defaultIdle  = 10 * time.Minute
	defaultFirst = time.Second
	defaultMost  = 5 * time.Minute
)

// Registry is the upstreams.
type Registry struct {
	Config

	mu     sync.Mutex // guards the fields below; leaf lock
	known  map[string]*server
	adding map[string]bool
	closed bool
	work   sync.WaitGroup // sessions under way
}

// New reads the upstreams and offers their tools. No server is started.
func New(ctx context.Context, c Config) (*Registry, error) {
	if c.DB == nil || c.Journal == nil || c.Launcher == nil || c.Network == nil || c.Catalog == nil || c.Artifacts == nil || c.Now == nil ||
		c.Log == nil {
		return nil, errors.New("upstream: new: a part is missing")
	}
	for _, d := range []struct {
		at *time.Duration
		by time.Duration
	}{{&c.Start, defaultStart}, {&c.Idle, defaultIdle}, {&c.First, defaultFirst}, {&c.Most, defaultMost}} {
		if *d.at <= 0 {
			*d.at = d.by
		}
	}
	r := &Registry{Config: c, known: map[string]*server{}, adding: map[string]bool{}}
	all, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		r.known[u.Name] = newServer(r, u)
	}
	for _, s := range r.known {
		if err := s.offer(); err != nil { // a built-in of a newer version has the name: not offered, and told
			c.Log.Error("the tools of an upstream cannot be offered", "upstream", s.name, "error", err)
		}
	}
	return r, nil
}

// Tend stops servers that nobody uses until ctx ends.
func (r *Registry) Tend(ctx context.Context) error {
	tick := time.NewTicker(max(r.Idle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, s := range r.servers() {
			s.stopIdle()
		}
	}
}

// Close ends every session and waits until nothing of their servers is left.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for _, s := range r.servers() {
		s.stop(string(palyra.ReasonStopping))
	}
	r.work.Wait()
}

func (r *Registry) servers() []*server {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*server
	for _, s := range r.known {
		out = append(out, s)
	}
	return out
}

// enter counts a session in, unless the registry is closed.
func (r *Registry) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.work.Add(1)
	}
	return !r.closed
}

// find returns an upstream by name.
func (r *Registry) find(name string) (*server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.known[name]; s != nil {
		return s, nil
	}
	return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no MCP server called %q", palyra.Clip(name, 64)).
		WithRemedy("see 'palyra mcp list'")
}
