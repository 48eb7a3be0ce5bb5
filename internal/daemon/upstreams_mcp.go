package daemon

import (
	"context"

	"palyra"
	"palyra/internal/egress"
	"palyra/internal/mcp/upstream"
	"palyra/internal/store"

	mcpsvc "palyra/internal/rpc/mcp"
)

// upstreamSchemas are the tables of upstreams.
func upstreamSchemas() []store.Schema { return []store.Schema{upstream.Schema()} }

// openUpstreams reads the upstream MCP servers and offers their tools.
func (d *Daemon) openUpstreams(ctx context.Context, p *path) error {
	r, err := upstream.New(ctx, upstream.Config{
		DB: d.db, Journal: d.journal, Launcher: launcher{d, p}, Network: network{p.native.guard}, Catalog: p.catalog,
		Artifacts: d.files, Version: d.Version, Now: now, Log: d.Log,
	})
	if err != nil {
		return err
	}
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, u := range all {
		names = append(names, u.Name)
	}
	d.tidyServers(names)
	p.upstreams = upstreamPart{r}
	return nil
}

// upstreamPart is the registry as the path and the doors know it.
type upstreamPart struct{ *upstream.Registry }

// Add implements the door's Upstreams.
func (u upstreamPart) Add(ctx context.Context, a mcpsvc.Addition) (palyra.Upstream, error) {
	return u.Registry.Add(ctx, upstream.AddRequest(a))
}

// Call implements upstreams.
func (u upstreamPart) Call(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	return u.Run(ctx, l, c)
}

// launcher starts servers in tier C.
type launcher struct {
	d *Daemon
	p *path
}

// Resolve implements upstream.Launcher.
func (l launcher) Resolve(ctx context.Context, name string, def palyra.UpstreamDefinition) (palyra.Plan, error) {
	return l.d.serverPlan(ctx, l.p.native.tool, name, def)
}

// Start implements upstream.Launcher.
func (l launcher) Start(ctx context.Context, _ string, p palyra.Plan) (upstream.Process, error) {
	s, err := l.p.native.runner.Serve(ctx, newID(), p)
	if err != nil {
		return nil, err
	}
	return serverProcess{s}, nil
}

// Forget implements upstream.Launcher.
func (l launcher) Forget(name string) error { return l.d.forgetServer(name) }

// network is the way to servers elsewhere. Nobody is asked on the way.
type network struct{ *egress.Guard }

// Open implements upstream.Network.
func (n network) Open(ctx context.Context, p palyra.Plan) (upstream.Way, error) {
	s, err := n.Guard.Open(ctx, nil, p)
	if err != nil {
		return nil, err
	}
	return s, nil
}
