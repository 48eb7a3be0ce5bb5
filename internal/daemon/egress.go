package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/sandbox"
	"palyra/internal/tool/fetch"
)

// guardOf makes the one way out for everything that runs. ask puts hosts to people
// where the configuration says so; nil: nobody is asked.
func guardOf(c config.Egress, ask egress.Ask, log *slog.Logger) (*egress.Guard, error) {
	conf := egress.Config{
		Mode: c.Mode, Allowed: c.AllowedHosts, HostNetwork: c.HostNetwork == "on", Resolver: c.Resolver, Upstream: c.Upstream,
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

// guarded is the guard as the sandbox knows it.
type guarded struct {
	*egress.Guard
	config.Egress
}

// Mode implements sandbox.Guard.
func (g guarded) Mode() string { return g.Egress.Mode }

// Mechanisms implements sandbox.Guard. What the configuration opens is named, so
// that policy and attestations see it.
func (g guarded) Mechanisms() []string {
	list := []string{sandbox.Guarded}
	if g.HostNetwork == "on" {
		list = append(list, "host_network")
	}
	if len(g.PrivateRanges) > 0 {
		list = append(list, "private_ranges")
	}
	if g.Egress.Mode == egress.Strict {
		list = append(list, fmt.Sprint("wildcard_names:", g.WildcardNames))
	}
	return list
}

// Open implements sandbox.Guard. In mode preflight the hosts of the plan must be
// found before anything starts.
func (g guarded) Open(ctx context.Context, c *palyra.Call, p palyra.Plan) (sandbox.Gateway, error) {
	if g.Egress.Mode == egress.Preflight && len(p.Egress) > 0 {
		if err := g.Preflight(ctx, p.Egress); err != nil {
			return nil, err
		}
	}
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
// like any other. The run's clock stands still meanwhile. When ctx ends first, or
// the run does, the question is withdrawn.
func (p *path) askHost(ctx context.Context, c *palyra.Call, host string, port int) (egress.Answer, error) {
	from := c.Proposal
	denied := func(why, remedy string) error {
		return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s:%d was not allowed: %s", host, port, why).WithRemedy("%s", remedy)
	}
	if from.NoWait {
		return egress.Answer{}, denied("the caller does not wait for answers", "name the host in the call's egress")
	}
	args, err := json.Marshal(map[string]any{"host": host, "port": port})
	if err != nil {
		return egress.Answer{}, err
	}
	var resume func()
	var id atomic.Value
	out, err := p.calls.Call(ctx, palyra.Proposal{
		Principal: from.Principal, Owner: from.Owner, PeerUID: from.PeerUID, Door: from.Door, Session: from.Session, Run: from.Run,
		Workspace: from.Workspace, Tool: fetch.AllowName, Arguments: args, CallsUsed: from.CallsUsed, CallsMax: from.CallsMax,
		Within: from.Within, Room: from.Room, Line: append(slices.Clone(from.Line), c.ID), Origin: from.Origin, Credential: from.Credential,
		Inside: c.Plan.AgentSocket || from.Inside,
		Parent: c.ID, Purpose: cmp.Or(c.Detail.Summary, c.Proposal.Tool),
	}, palyra.Watch{Event: func(asks *palyra.Call, e palyra.Event) {
		id.Store(asks.ID)
		if resume == nil && putToPeople(e) { // what policy answers by itself is the run's own time
			resume = p.leases.pause(c.ID)
		}
		p.calls.Relay(c.ID, asks, e)
	}})
	if resume != nil {
		resume()
	}
	call, known := id.Load().(palyra.ID)
	if known && ctx.Err() != nil {
		_ = p.calls.Cancel(context.WithoutCancel(ctx), call) // it has ended: nothing is left to withdraw
	}
	switch {
	case err != nil:
		return egress.Answer{}, err
	case out.Outcome != palyra.OutcomeFinished || out.ReasonCode != "":
		return egress.Answer{}, denied(out.Reason, out.Remedy)
	}
	return p.answer(ctx, c.ID, call, out)
}

// putToPeople reports whether an event says that somebody is asked.
func putToPeople(e palyra.Event) bool {
	switch e.(type) {
	case palyra.ApprovalRequested, palyra.ApprovalJoined:
		return true
	}
	return false
}

// answer says how long the yes holds: that of a lease until the lease ends, any
// other for this run.
func (p *path) answer(ctx context.Context, run, id palyra.ID, out palyra.Outcome) (egress.Answer, error) {
	a := egress.Answer{Grant: out.GrantID}
	call, err := p.calls.Get(ctx, id)
	if err != nil {
		return egress.Answer{}, err
	}
	lease := call.Decision.Lease
	if lease == "" || call.Decision.Scope == palyra.ScopeOnce {
		return a, nil
	}
	a.Revoked = p.leases.watch(lease, run)
	l, err := p.lease(ctx, lease)
	if err != nil {
		return egress.Answer{}, err
	}
	if l.Ended != "" && l.Ended != "spent" {
		return egress.Answer{}, palyra.Errorf(palyra.Denied, palyra.ReasonGrantRevoked, "the grant has ended already")
	}
	a.Until = l.ExpiresAt
	return a, nil
}
