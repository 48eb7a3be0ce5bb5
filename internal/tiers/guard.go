package tiers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/egress/lend"
	"palyra/internal/publish"
	"palyra/internal/sandbox"
	"palyra/internal/signing"
)

// guardOf makes the one way out for everything that runs. ask puts hosts to people
// where the configuration says so; nil: nobody is asked.
func guardOf(c config.Egress, ask egress.Ask, now func() time.Time, log *slog.Logger) (*egress.Guard, error) {
	conf := egress.Config{
		Mode: palyra.NetworkMode(c.Mode), Allowed: c.AllowedHosts, HostNetwork: c.HostNetwork == "on", Resolver: c.Resolver, Upstream: c.Upstream,
		MaxWildcard: int(c.WildcardNames), Now: now, Log: log,
	}
	var err error
	if conf.PrivateRanges, err = c.Prefixes(); err != nil {
		return nil, err
	}
	if c.Ask == "on" {
		conf.Ask = ask
	}
	return egress.New(conf)
}

// links are the published ports as the sandbox knows them.
type links struct{ *publish.Ports }

// Open implements sandbox.Ports.
func (p links) Open(c *palyra.Call, plan palyra.Plan, beside []cell.Listener) (sandbox.Link, error) {
	l, err := p.Ports.Open(c, plan, beside)
	if err != nil || l == nil {
		return nil, err
	}
	return l, nil
}

// egressGuard is the guard as the sandbox knows it.
type egressGuard struct {
	*egress.Guard
	config.Egress
	vault Vault // nil: nothing is lent
	// stray is told of a placeholder that stood where its value does not go
	stray   func(ctx context.Context, c *palyra.Call, binding, host string)
	record  func(ctx context.Context, e palyra.Event) // is told what was used
	signing signing.Config                            // what signs with lent keys stands on
	// signed puts a signature on record before it is made
	signed func(ctx context.Context, c *palyra.Call, host string, s lend.Signature) error
}

// Mode implements sandbox.Guard.
func (g egressGuard) Mode() palyra.NetworkMode { return g.Egress.Mode }

// Mechanisms implements sandbox.Guard. What the configuration opens is named, so
// that policy and attestations see it.
func (g egressGuard) Mechanisms() []string {
	list := []string{sandbox.Guarded}
	if g.HostNetwork == "on" {
		list = append(list, "host_network")
	}
	if len(g.PrivateRanges) > 0 {
		list = append(list, "private_ranges")
	}
	if g.Mode() == egress.Strict {
		list = append(list, fmt.Sprint("wildcard_names:", g.WildcardNames))
	}
	return list
}

// Open implements sandbox.Guard. In mode preflight the hosts of the plan must be found before anything starts.
func (g egressGuard) Open(ctx context.Context, c *palyra.Call, p palyra.Plan) (sandbox.Gateway, error) {
	if g.Mode() == egress.Preflight && len(p.Egress) > 0 {
		if err := g.Preflight(ctx, p.Egress); err != nil {
			return nil, err
		}
	}
	asks := c
	if p.Source == palyra.SourceSkill { // hosts that a skill was not granted are none that somebody may add in passing
		asks = nil
	}
	s, err := g.Guard.Open(ctx, asks, p)
	if err != nil {
		return nil, err
	}
	way, err := g.lendTo(ctx, s, c, p)
	if err != nil {
		way.Close()
		return nil, err
	}
	return way, nil
}
