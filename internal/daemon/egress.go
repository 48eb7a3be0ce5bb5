package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync/atomic"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/sandbox"
	"palyra/internal/tool/fetch"
)

// openGuard makes the one way out for everything that runs.
func (d *Daemon) openGuard(p *path) (*egress.Guard, error) {
	c := d.Config.Config.Egress
	conf := egress.Config{
		Mode: c.Mode, Allowed: c.AllowedHosts, HostNetwork: c.HostNetwork == "on", Resolver: c.Resolver, Upstream: c.Upstream, Now: now, Log: d.Log,
	}
	for _, r := range c.PrivateRanges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, fmt.Errorf("daemon: egress: %w", err)
		}
		conf.PrivateRanges = append(conf.PrivateRanges, prefix)
	}
	if c.Ask == "on" {
		conf.Ask = p.askHost
	}
	return egress.New(conf)
}

// guarded is the guard as the sandbox knows it.
type guarded struct {
	*egress.Guard
	mode string
}

// Mode implements sandbox.Guard.
func (g guarded) Mode() string { return g.mode }

// Open implements sandbox.Guard.
func (g guarded) Open(ctx context.Context, c *palyra.Call, p palyra.Plan) (sandbox.Gateway, error) {
	s, err := g.Guard.Open(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fetching is the guard as the fetch tool knows it. Its hosts are those of the
// plan: nothing is asked on the way.
func fetching(g *egress.Guard) fetch.Config {
	return fetch.Config{
		Hosts: g,
		Open: func(ctx context.Context, p palyra.Plan) (fetch.Session, error) {
			s, err := g.Open(ctx, nil, p)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

// askHost puts a host that a running call wants to reach, and was not granted, to
// the gate as a call of its own: judged, asked, answered, recorded and attested
// like any other. It returns nil when that call came to a good end. When ctx ends
// first the question is withdrawn.
func (p *path) askHost(ctx context.Context, c *palyra.Call, host string, port int) error {
	args, err := json.Marshal(map[string]any{"host": host, "port": port})
	if err != nil {
		return err
	}
	from := c.Proposal
	var id atomic.Value
	out, err := p.calls.Call(ctx, palyra.Proposal{
		Principal: from.Principal, Owner: from.Owner, PeerUID: from.PeerUID, Door: from.Door, Session: from.Session, Run: from.Run,
		Workspace: from.Workspace, Tool: fetch.AllowName, Arguments: args, NoWait: from.NoWait,
	}, palyra.Watch{Event: func(c *palyra.Call, _ palyra.Event) { id.Store(c.ID) }})
	if call, known := id.Load().(palyra.ID); known && ctx.Err() != nil {
		_ = p.calls.Cancel(context.WithoutCancel(ctx), call) // it has ended: nothing is left to withdraw
	}
	switch {
	case err != nil:
		return err
	case out.Outcome == palyra.OutcomeFinished && out.ReasonCode == "":
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s:%d was not allowed: %s", host, port, out.Reason).WithRemedy("%s", out.Remedy)
}

// egressSnapshot is the part of the snapshot about the way out.
func egressSnapshot(c config.Egress) map[string]any {
	return map[string]any{
		"mode": c.Mode, "allowed_hosts": c.AllowedHosts, "private_ranges": c.PrivateRanges, "host_network": c.HostNetwork, "ask": c.Ask,
		"resolver": c.Resolver, "upstream": c.Upstream,
	}
}
