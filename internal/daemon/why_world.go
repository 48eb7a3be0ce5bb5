package daemon

import (
	"context"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/catalog"
	"palyra/internal/config"
	"palyra/internal/plan"
	"palyra/internal/policy"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
	"palyra/internal/tool/device"
	"palyra/internal/tool/files"
	"palyra/internal/tool/foreign"
	"palyra/internal/tool/process"
)

// world is what a call meets before anybody is asked: who knows the tool, who makes
// the plan, who judges it. Besides the real one there are imagined ones, in which a
// setting is another; nothing ever runs in those.
type world struct {
	catalog *catalog.Catalog
	planner *plan.Resolver
	policy  *policy.Engine
}

// here is the world as it is.
func (p policyPart) here() world {
	return world{p.d.path.catalog, p.d.path.planner, p.d.policy}
}

// meet takes a call as far as policy. A call without a tool was turned away by
// the catalog, any other by the planner.
func (w world) meet(ctx context.Context, c *palyra.Call) (err error) {
	if c.Tool, err = w.catalog.Admit(ctx, c.Proposal); err != nil {
		c.Tool = palyra.Tool{}
		return err
	}
	if c.Plan, err = w.planner.Resolve(ctx, c); err != nil {
		return err
	}
	if c.Proposal.Check {
		c.Plan = c.Plan.Unsandboxed()
	}
	c.Digest, err = c.Plan.Digest()
	return err
}

// imagine takes a call as far as policy in the world as it is.
func (p policyPart) imagine(ctx context.Context, c *palyra.Call) error { return p.here().meet(ctx, c) }

// with is the world of a daemon that was started with other settings: the same
// state, the same sandboxes, and everything that only looks made anew.
func (d *Daemon) with(c config.Config) (world, error) {
	shadow := &Daemon{Config: d.Config} // for what is made of the configuration alone
	shadow.Config.Config = c
	guard, err := shadow.openGuard(&path{})
	if err != nil {
		return world{}, err
	}
	conf := d.path.native.tool.Config
	conf.Enabled, conf.Tier, conf.Hosts = c.Process.Tier != "off", tierOf(c.Process.Tier), guard
	conf.Wall, conf.AgentWall = c.ToolCall.ExecutionTimeoutMS, c.ToolCall.RunTimeoutMS
	conf.Limits = palyra.Limits{
		CPUMS: c.Process.CPUMS, MemoryBytes: c.Process.MemoryBytes, Processes: c.Process.Processes, OpenFiles: c.Process.OpenFiles,
		FileBytes: c.Process.FileBytes, EmittedBytes: c.Process.EmittedBytes, DiskBytes: c.Process.DiskBytes,
	}
	conf.Tiers = otherTiers{d, guarded{guard, c.Egress}, c.Process.Posture}
	p := &path{native: &native{}, upstreams: d.path.upstreams}
	if p.native.tool, err = process.New(conf); err != nil {
		return world{}, err
	}
	if p.tools, err = tool.NewSet(append(builtin(d.files, guard), device.All(d.devices.tool())...)...); err != nil {
		return world{}, err
	}
	return d.around(p, shadow)
}

// around is the world of a path that was made for it.
func (d *Daemon) around(p *path, shadow *Daemon) (w world, err error) {
	c := shadow.Config.Config
	own := slices.Concat(p.tools.Specs(), p.native.tool.Specs())
	others := slices.DeleteFunc(d.path.catalog.List(), func(t palyra.Tool) bool { // those of upstreams
		return slices.ContainsFunc(own, func(o palyra.Tool) bool { return o.Name == t.Name })
	})
	w.catalog, err = catalog.New(catalog.Config{Tools: append(own, others...), MaxCalls: c.ToolCall.MaxCallsPerRun, Foreign: foreign.Tool})
	if err != nil {
		return world{}, err
	}
	w.planner, err = plan.New(plan.Config{
		Workspaces: d.work, Drivers: p.drivers(foreign.Driver{Target: files.Target}), Wall: c.ToolCall.ExecutionTimeout(), OutputBytes: c.ToolCall.OutputBytes,
		Longer: shadow.agentWall, Guard: d.path.planner.Guard,
	})
	if err != nil {
		return world{}, err
	}
	judging := d.judging(d.policy.Bundle())
	judging.Snapshot = shadow.snapshot()
	if w.policy, err = policy.New(judging); err != nil {
		return world{}, fmt.Errorf("daemon: why: %w", err)
	}
	return w, nil
}

// otherTiers are the tiers of this machine under other settings of what leaves them
// and of whether they must be known to hold. How limits are held is a matter of the
// machine and stays what it is.
type otherTiers struct {
	d       *Daemon
	guard   guarded
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
