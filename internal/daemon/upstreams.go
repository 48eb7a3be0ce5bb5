package daemon

import (
	"context"

	"palyra"
	"palyra/internal/egress"
	"palyra/internal/mcp/upstream"
	"palyra/internal/plan"
	"palyra/internal/tiers"

	mcpsvc "palyra/internal/rpc/mcp"
)

// upstreams is the MCP servers whose tools are offered, as the path knows them.
type upstreams interface {
	plan.Driver
	mcpsvc.Upstreams
	// Call runs a granted call of one of their tools.
	Call(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result
	// Tend stops servers that nobody uses until ctx ends.
	Tend(ctx context.Context) error
	// Close ends all servers.
	Close()
}

// drivers are the parts that know tools; more are asked last.
func (p *path) drivers(more ...plan.Driver) []plan.Driver {
	list := []plan.Driver{p.tools, p.tiers.Tool}
	if p.upstreams != nil {
		list = append(list, p.upstreams)
	}
	if p.skills != nil {
		list = append(list, p.skills)
	}
	return append(list, more...)
}

// openUpstreams reads the upstream MCP servers and offers their tools.
func (d *Daemon) openUpstreams(ctx context.Context, p *path) error {
	servers := tiers.Servers{Tiers: p.tiers, Workspaces: d.work, NewID: newID}
	r, err := upstream.New(ctx, upstream.Config{
		DB: d.db, Journal: d.journal, Launcher: servers, Network: network{p.tiers.Guard}, Catalog: p.catalog,
		Artifacts: d.files, Version: d.Version, Now: now, Log: d.Log, Mask: d.Mask, Secrets: servers,
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
	servers.Tidy(names)
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
