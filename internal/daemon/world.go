package daemon

import (
	"context"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/explain"
	"palyra/internal/policy"
	"palyra/internal/profile"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
	"palyra/internal/tool/device"
	"palyra/internal/tool/process"
)

// explainer says why calls are answered as they are.
func (d *Daemon) explainer() *explain.Explainer {
	c := explain.Config{
		Here: explain.World{Catalog: d.path.catalog, Planner: d.path.planner, Policy: d.policy}, With: d.with,
		Calls: d.path.ledger.Get, Desk: d.desk, Attester: d.attester, Access: d.access, Sessions: d.sessions, Workspaces: d.work,
		Settings: d.Config.Config, Now: now,
		Profiles: func() ([]profile.Info, error) { return d.path.native.profiles.List() },
	}
	if d.path.upstreams != nil {
		c.Upstreams = d.path.upstreams.List
	}
	return explain.New(c)
}

// with is the world of a daemon that was started with other settings: the same
// state, the same sandboxes, and everything that only looks made anew by what makes
// the real one.
func (d *Daemon) with(c config.Config) (w explain.World, err error) {
	guard, err := guardOf(c.Egress, nil, d.Log)
	if err != nil {
		return w, err
	}
	conf := programs(d.path.native.tool.Config, c, guard)
	conf.Tiers = otherTiers{d, egressGuard{guard, c.Egress}, c.Process.Posture}
	p := &path{native: &native{}, upstreams: d.path.upstreams}
	if p.native.tool, err = process.New(conf); err != nil {
		return w, err
	}
	if p.tools, err = tool.NewSet(append(builtin(d.files, guard), device.All(d.devices.tool())...)...); err != nil {
		return w, err
	}
	others := slices.DeleteFunc(d.path.catalog.List(), func(t palyra.Tool) bool { return t.Source != palyra.SourceMCP })
	if w.Catalog, err = p.catalogOf(c, others...); err != nil {
		return w, err
	}
	if w.Planner, err = p.plannerOf(c, d.work, d.path.planner.TrustedFiles); err != nil {
		return w, err
	}
	judging := d.judging(d.policy.Bundle())
	judging.Snapshot = c.Snapshot()
	if w.Policy, err = policy.New(judging); err != nil {
		return w, fmt.Errorf("daemon: why: %w", err)
	}
	return w, nil
}

// otherTiers are the tiers of this machine under other settings of what leaves them
// and of whether they must be known to hold. How limits are held is a matter of the
// machine and stays what it is.
type otherTiers struct {
	d       *Daemon
	guard   egressGuard
	posture string
}

// Promise implements the process tool's Tiers.
func (t otherTiers) Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	_, err := t.d.path.Promise(ctx, tier, l)
	if unproven := palyra.AsError(err).Reason == palyra.ReasonPosture && t.posture != "require"; err != nil && !unproven {
		return palyra.Enforcement{}, err
	}
	e, err := trials{t.d}.Promise(ctx, tier, l)
	if err != nil {
		return palyra.Enforcement{}, err
	}
	e.Mechanisms = slices.Clone(e.Mechanisms)
	if t.walled(tier) {
		e.Mode = t.guard.Mode()
		e.Mechanisms = append(e.Mechanisms, t.guard.Mechanisms()...)
	}
	slices.Sort(e.Mechanisms)
	return e, nil
}

// walled reports whether runs in the tier have a network of their own.
func (t otherTiers) walled(tier palyra.Tier) bool {
	return slices.ContainsFunc(t.d.path.native.backends, func(b sandbox.Backend) bool {
		w, ok := b.(sandbox.Walled)
		return ok && b.Tier() == tier && w.Room()
	})
}
