package daemon

import (
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/explain"
	"palyra/internal/policy"
	"palyra/internal/profile"
	"palyra/internal/tool"
	"palyra/internal/tool/device"
)

// explainer says why calls are answered as they are.
func (d *Daemon) explainer() *explain.Explainer {
	c := explain.Config{
		Here: explain.World{Catalog: d.path.catalog, Planner: d.path.planner, Policy: d.policy}, With: d.imaginedWorld,
		Calls: d.path.ledger.Get, Desk: d.desk, Attester: d.attester, Access: d.access, Sessions: d.sessions, Workspaces: d.work,
		Settings: d.Settings, Now: now,
		Profiles: func() ([]profile.Info, error) { return d.path.tiers.Profiles.List() },
	}
	if d.path.upstreams != nil {
		c.Upstreams = d.path.upstreams.List
	}
	return explain.New(c)
}

// imaginedWorld is the world of a daemon with other settings: the same state, the same sandboxes, and the
// parts that only look made anew, by the constructors of the real ones.
func (d *Daemon) imaginedWorld(c config.Config) (w explain.World, err error) {
	p := &path{upstreams: d.path.upstreams, skills: d.path.skills}
	if p.tiers, err = d.path.tiers.With(c); err != nil {
		return w, err
	}
	if p.tools, err = tool.NewSet(append(d.builtin(p.tiers), device.All(d.devices.Tool())...)...); err != nil {
		return w, err
	}
	others := slices.DeleteFunc(d.path.catalog.List(), func(t palyra.Tool) bool { return t.Source == palyra.SourceBuiltin })
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
