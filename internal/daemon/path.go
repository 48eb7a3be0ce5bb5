package daemon

import (
	"context"
	"path/filepath"
	"slices"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/artifact"
	"palyra/internal/catalog"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/gate"
	"palyra/internal/plan"
	"palyra/internal/run"
	"palyra/internal/seal/trustedfiles"
	"palyra/internal/store"
	"palyra/internal/tool"
	"palyra/internal/tool/basic"
	"palyra/internal/tool/device"
	"palyra/internal/tool/fetch"
	"palyra/internal/tool/files"
	"palyra/internal/tool/foreign"
	"palyra/internal/workspace"

	toolartifact "palyra/internal/tool/artifact"
)

// path is the parts a tool call walks through.
type path struct {
	tools     *tool.Set
	catalog   *catalog.Catalog
	planner   *plan.Resolver
	runner    *tool.Runner
	native    *native
	upstreams upstreams // nil: there are none
	ledger    *run.Ledger
	calls     *run.Calls
	runs      *run.Runs
	models    *agent.Models
	guard     func(context.Context, *palyra.Call) // looks after a program of our own user
}

// close ends what is under way, runs first: they would only start more.
func (p *path) close() error {
	if p.runs != nil {
		p.runs.Stop()
	}
	if p.calls != nil {
		p.calls.Stop()
	}
	if p.upstreams != nil {
		p.upstreams.Close()
	}
	return p.native.close()
}

// openPath wires the gate.
func (d *Daemon) openPath(ctx context.Context) error {
	c := d.Config.Config
	var err error
	d.work, err = workspace.New(workspace.Config{DB: d.db, Journal: d.journal, Now: now, Own: d.own()})
	if err != nil {
		return err
	}
	d.projects.Find = d.work.Find // before anything is judged
	d.files, err = artifact.New(ctx, artifact.Config{DB: d.db, Dir: artifactDir(c.Paths.State), Now: now})
	if err != nil {
		return err
	}
	d.chosen = d.modes()
	p := &path{guard: d.guard}
	if err = d.openNative(p); err != nil {
		return err
	}
	if p.tools, err = tool.NewSet(append(builtin(d.files, p.native.guard), device.All(d.devices.tool())...)...); err != nil {
		return err
	}
	if p.catalog, err = p.catalogOf(c); err != nil {
		return err
	}
	if err = d.openUpstreams(ctx, p); err != nil {
		return err
	}
	if p.planner, err = p.plannerOf(c, d.work, new(trustedfiles.TrustedFiles)); err != nil {
		return err
	}
	if err = d.openRunner(p); err != nil {
		return err
	}
	p.runner, err = tool.NewRunner(tool.Config{Tools: p.tools, Artifacts: d.files, Now: now})
	if err != nil {
		return err
	}
	return d.openCalls(p)
}

// catalogOf makes the catalog of the path's own tools and more, under a configuration.
func (p *path) catalogOf(c config.Config, more ...palyra.Tool) (*catalog.Catalog, error) {
	return catalog.New(catalog.Config{
		Tools: slices.Concat(p.tools.Specs(), p.native.tool.Specs(), more), MaxCalls: c.ToolCall.MaxCallsPerRun, Foreign: foreign.Tool,
	})
}

// plannerOf makes the planner of the path's tools, under a configuration.
func (p *path) plannerOf(c config.Config, work *workspace.Registry, g plan.TrustedFiles) (*plan.Resolver, error) {
	return plan.New(plan.Config{
		Workspaces: work, Drivers: p.drivers(foreign.Driver{Target: files.Target}), Wall: c.ToolCall.ExecutionTimeout(),
		OutputBytes: c.ToolCall.OutputBytes, Longer: agentWall(c.ToolCall), TrustedFiles: g,
	})
}

// builtin is the list of Palyra's own tools.
func builtin(a *artifact.Store, g *egress.Guard) []tool.Tool {
	var all []tool.Tool
	all = append(all, basic.All()...)
	all = append(all, files.All(files.Config{})...)
	all = append(all, fetch.All(fetching(g))...)
	return append(all, toolartifact.All(a)...)
}

// sweep takes away the temporary files of a call that an earlier daemon died in.
func (d *Daemon) sweep(ctx context.Context, c *palyra.Call) {
	stay, err := files.Sweep(ctx, c.ID, c.Plan)
	if err != nil {
		d.Log.Warn("cannot take away the temporary files of a call that was cut off", "call", c.ID, "workspace", c.Plan.Workspace.Path, "error", err)
	}
	for _, name := range stay {
		d.Log.Warn("a call that was cut off left what a file was before", "call", c.ID, "workspace", c.Plan.Workspace.Path, "file", name)
	}
}

// openCalls puts the ledger, the gate and the calls on top of each other.
func (d *Daemon) openCalls(p *path) (err error) {
	p.ledger = run.NewLedger(d.db, d.journal, d.desk.Apply, d.attester.Apply)
	p.ledger.Envelopes(d.attester.Envelope)
	p.ledger.Budget(d.Config.Config.ToolCall.DailyBytes)
	d.sessions, err = run.NewSessions(run.SessionConfig{
		DB: d.db, Journal: d.journal, Now: now, Idle: d.Config.Config.Sessions.Idle(),
		OnClose: []func(*store.Tx, palyra.ID, string) error{
			func(tx *store.Tx, id palyra.ID, by string) error {
				return d.desk.EndSession(tx, id, palyra.Principal(by))
			},
		},
	})
	if err != nil {
		return err
	}
	g, err := gate.New(gate.Config{
		Ledger: p.ledger, Catalog: p.catalog, Planner: p.planner, Judge: d.policy, Desk: d.desk, Runner: p,
		Attester: d.attester, NewID: newID, Now: now, Log: d.Log,
	})
	if err != nil {
		return err
	}
	p.calls, err = run.NewCalls(run.CallsConfig{
		Gate: g, Ledger: p.ledger, Sessions: d.sessions, Now: now, Log: d.Log, Lease: d.desk.Lease, CutOff: d.sweep, Held: heldCall(d.journal),
	})
	if err != nil {
		return err
	}
	d.desk.OnLeaseEnd(p.calls.LeaseEnded)
	d.desk.OnSettled(p.calls.ApprovalSettled)
	d.path = p
	return d.openRuns(p)
}

// closed lists the directories with what runs made, to which no link in a workspace
// may lead: nobody looks through them for what other programs obey.
func (d *Daemon) closed() []string {
	p, at := d.Config.Config.Paths, d.places()
	return []string{filepath.Dir(p.State), p.Cache, p.Quarantine, at.Cells, at.Caches, at.Posture, at.Stages, d.serverDirs()}
}

// own lists Palyra's own directories, which no workspace may touch.
func (d *Daemon) own() []string {
	p := d.Config.Config.Paths
	dirs := []string{
		filepath.Dir(p.State), p.Keys, filepath.Dir(p.OperatorKey), filepath.Dir(p.Config), p.Run, p.SocketDir(), p.Cache, p.Quarantine, d.cells(), d.serverDirs(), d.caches(), d.places().Posture, d.places().Stages,
	}
	if p.Home != "" {
		dirs = append(dirs, p.Home)
	}
	if dir := d.Config.Config.Policy.Dir; dir != "" {
		dirs = append(dirs, dir)
	}
	for _, provider := range d.Config.Config.Providers {
		if provider.KeyFile != "" {
			dirs = append(dirs, provider.KeyFile)
		}
	}
	return dirs
}
