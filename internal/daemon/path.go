package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/artifact"
	"palyra/internal/bootclock"
	"palyra/internal/catalog"
	"palyra/internal/config"
	"palyra/internal/gate"
	"palyra/internal/masked"
	"palyra/internal/plan"
	"palyra/internal/prune"
	"palyra/internal/publish"
	"palyra/internal/run"
	"palyra/internal/sandbox/bare"
	"palyra/internal/seal/trustedfiles"
	"palyra/internal/skill"
	"palyra/internal/skill/registry"
	"palyra/internal/store"
	"palyra/internal/tiera"
	"palyra/internal/tiers"
	"palyra/internal/tool"
	"palyra/internal/tool/background"
	"palyra/internal/tool/basic"
	"palyra/internal/tool/device"
	"palyra/internal/tool/fetch"
	"palyra/internal/tool/files"
	"palyra/internal/tool/foreign"
	"palyra/internal/tool/gitremote"
	"palyra/internal/tool/review"
	"palyra/internal/tool/sign"
	"palyra/internal/undo"
	"palyra/internal/wasm"
	"palyra/internal/workspace"

	"palyra/internal/session"
	toolartifact "palyra/internal/tool/artifact"
	toolundo "palyra/internal/tool/undo"
)

// path is the parts a tool call walks through.
type path struct {
	tools     *tool.Set
	catalog   *catalog.Catalog
	planner   *plan.Resolver
	runner    *tool.Runner
	tiers     *tiers.Tiers
	tierA     *tiera.TierA
	upstreams upstreams          // nil: there are none
	skills    *registry.Registry // nil, as the upstreams
	ledger    *run.Ledger
	calls     *run.Calls
	runs      *run.Runs
	models    *agent.Models
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
	if p.tiers == nil {
		return nil
	}
	return errors.Join(p.tierA.Close(), p.tiers.Close())
}

// openPath wires the gate. On an error it closes everything that it opened: nobody else knows of it.
func (d *Daemon) openPath(ctx context.Context) (err error) {
	c, p := d.Settings, &path{}
	defer func() {
		if err != nil && d.path == nil {
			err = errors.Join(err, p.close())
		}
	}()
	tell := func(all []string, known bool) {
		if err := c.Paths.TellWorkspaces(all, known); err != nil {
			d.Log.Warn("the list of workspaces could not be written down: commands ask for it", "error", err)
		}
	}
	d.work, err = workspace.New(workspace.Config{DB: d.db, Journal: d.journal, Now: now, Own: c.Own(d.stateID), Tell: tell})
	if err != nil {
		return err
	}
	d.projects.Find = d.work.Find // before anything is judged
	d.files, err = artifact.New(ctx, artifact.Config{DB: d.db, Dir: artifactDir(c.Paths.State), Now: now})
	if err != nil {
		return err
	}
	p.tiers, err = tiers.Open(tiers.Config{
		Settings: c, StateID: d.stateID, CellDigest: d.CellDigest, Drivers: drivers, Journal: d.journal, Agents: insiders{d}, Streams: p,
		Vault: d.vault, Ask: p.askHost, Ports: publish.New(c.DoorPorts(), d.Log), Started: func(id palyra.CallID) { p.calls.Started(id) },
		Packs: func(ctx context.Context, plan palyra.Plan) (skill.Unpacked, error) { return p.skills.Folder(ctx, plan) },
		Mask:  d.Mask, Calls: func() *run.Calls { return p.calls },
		Lists: d.files, Room: func(bytes int64) (bool, int64) { return d.undo.Room(bytes) }, Posture: d.current, Now: now, Log: d.Log,
	})
	if err != nil {
		return err
	}
	p.tierA = tierA(p.tiers.Config, d.WasmDigest, d.db)
	if p.tools, err = tool.NewSet(slices.Concat(d.builtin(p.tiers), device.All(d.devices.Tool()),
		background.All(func() background.Processes { return p.calls }))...); err != nil {
		return err
	}
	p.tools.Layers = p.tiers
	if p.catalog, err = p.catalogOf(c); err != nil {
		return err
	}
	if err = d.openUpstreams(ctx, p); err != nil {
		return err
	}
	p.skills, err = registry.New(ctx, registry.Config{
		DB: d.db, Journal: d.journal, Catalog: p.catalog, Policy: d.policy, Runtime: p.tierA.Runner(), Host: p.skillHost,
		Forget: tiera.Forget, Scripts: tiers.Scripts{Tiers: p.tiers}, Now: now, Log: d.Log,
	})
	if err != nil {
		return err
	}
	if p.planner, err = p.plannerOf(c, d.work, new(trustedfiles.TrustedFiles)); err != nil {
		return err
	}
	p.runner, err = tool.NewRunner(tool.Config{Tools: p.tools, Artifacts: d.files, Mask: d.Mask, Now: now})
	if err != nil {
		return err
	}
	return d.openCalls(p)
}

// skillHost does what a skill asks for in a call: by calls that come out of it, each through the gate.
func (p *path) skillHost(c *palyra.Call, skill string) wasm.Host {
	return p.tierA.Host(skill, func(ctx context.Context, tool palyra.ToolName, args json.RawMessage) (palyra.Outcome, error) {
		return p.calls.Work(ctx, c, tool, args, palyra.PurposeSkill+skill)
	})
}

// tierA makes tier A, which runs skills. palyra-wasm lies beside palyra-cell.
func tierA(c tiers.Config, digest string, db *store.DB) *tiera.TierA {
	state, program := filepath.Dir(c.Settings.Paths.State), filepath.Join(filepath.Dir(c.CellPath()), "palyra-wasm")
	return tiera.New(tiera.Config{Digest: digest, DB: db, State: state, Log: c.Log, Open: func() (tiera.Cells, error) {
		d, err := bare.New(bare.Config{
			Cell: c.CellPath(), Digest: c.CellDigest, Cgroup: c.Settings.Process.Cgroup, StateID: c.Mark(), Kind: "w",
			Name: "palyra-wasm", Program: program, ProgramDigest: digest, Remedy: tiera.NoCompiler, Log: c.Log,
		})
		return tiera.CellsOf(d), err
	}})
}

// catalogOf makes the catalog of the path's own tools and more, under a configuration.
func (p *path) catalogOf(c config.Config, more ...palyra.Tool) (*catalog.Catalog, error) {
	return catalog.New(catalog.Config{
		Tools: slices.Concat(p.tools.Specs(), p.tiers.Tool.Specs(), more), MaxCalls: c.ToolCall.MaxCallsPerRun, Foreign: foreign.Tool,
	})
}

// plannerOf makes the planner of the path's tools, under a configuration.
func (p *path) plannerOf(c config.Config, work *workspace.Registry, g plan.TrustedFiles) (*plan.Resolver, error) {
	return plan.New(plan.Config{
		Workspaces: work, Drivers: p.drivers(foreign.Driver{Target: files.Target}), Wall: c.ToolCall.ExecutionTimeout(),
		OutputBytes: c.ToolCall.OutputBytes, Longer: tiers.AgentWall(c.ToolCall), TrustedFiles: g, Layers: p.tiers,
	})
}

// builtin is the list of Palyra's own tools.
func (d *Daemon) builtin(t *tiers.Tiers) []tool.Tool {
	var all []tool.Tool
	all = append(all, basic.All()...)
	all = append(all, files.All(files.Config{UndoStore: undoPart{d}, Masks: t.Masks})...)
	all = append(all, fetch.All(t.Fetch())...)
	all = append(all, toolundo.All(undoPart{d})...)
	all = append(all, review.All(undoPart{d})...)
	all = append(all, sign.All()...)
	all = append(all, gitremote.All()...)
	return append(all, toolartifact.All(d.files)...)
}

// undoPart takes back what calls changed: the tools are there before the calls are.
type undoPart struct{ d *Daemon }

func (p undoPart) Size(ctx context.Context, env tool.Env, workspace string, id palyra.CallID) (paths, bytes int64, err error) {
	return p.d.undo.Size(ctx, env, workspace, id)
}

func (p undoPart) Preview(
	ctx context.Context, env tool.Env, workspace string, id palyra.CallID,
) ([]palyra.Change, palyra.Detail, bool, error) {
	return p.d.undo.Preview(ctx, env, workspace, id)
}

func (p undoPart) Remember(
	ctx context.Context, call palyra.CallID, workspace string, uid, gid int64, all []files.Replaced, lose bool,
) (func(bool), error) {
	olds := make([]undo.Old, len(all))
	for i, o := range all {
		olds[i] = undo.Old{Change: palyra.Change{Path: palyra.TextOfPath(o.Path), Was: o.Was, Now: o.Now}, Content: o.Before, AnyMode: o.AnyMode}
	}
	return p.d.undo.Remember(ctx, call, workspace, uid, gid, olds, lose)
}

func (p undoPart) Meant(
	ctx context.Context, env tool.Env, workspace string, agent palyra.CallID, paths []palyra.PathText, shown palyra.Digest,
) (meant, all int, list palyra.Digest, err error) {
	return p.d.undo.Meant(ctx, env, workspace, agent, paths, shown)
}

func (p undoPart) Lasting(all []files.Replaced) string {
	changes := make([]palyra.Change, len(all))
	for i, o := range all {
		changes[i] = palyra.Change{Path: palyra.TextOfPath(o.Path), Was: o.Was, Now: o.Now}
	}
	return p.d.undo.Lasting(changes)
}

func (p undoPart) Undo(ctx context.Context, env tool.Env, workspace string, id palyra.CallID) (palyra.Effects, error) {
	return p.d.undo.Undo(ctx, env, workspace, id)
}

// sweep takes away the temporary files of a call that an earlier daemon died in, and its stage. It says what became of
// the call's changes, where that is certain: what was there before the machine stopped may have been lost with it.
func (d *Daemon) sweep(ctx context.Context, c *palyra.Call) (became palyra.Result) {
	if c.State == palyra.Settling {
		became = d.path.Settle(ctx, c, false)
		if _, up := bootclock.Now(); c.Proposed.Before(now().Add(-up)) {
			became.Effects, became.Failure = "", nil
		}
	}
	stay, err := files.Sweep(ctx, c.ID, c.Plan)
	if err != nil {
		d.Log.Warn("cannot take away the temporary files of a call that was cut off", "call", c.ID, "workspace", c.Plan.Workspace.Path, "error",
			err)
	}
	for _, name := range stay {
		d.Log.Warn("a call that was cut off left what a file was before", "call", c.ID, "workspace", c.Plan.Workspace.Path, "file", name)
	}
	return became
}

// openCalls puts the ledger, the gate and the calls on top of each other.
func (d *Daemon) openCalls(p *path) (err error) {
	p.ledger = run.NewLedger(d.db, d.journal, d.desk.Apply, d.attester.Apply)
	p.ledger.Envelopes(d.attester.Envelope)
	p.ledger.Mask(masked.Words{Masker: d.Mask})
	p.ledger.Budget(d.Settings.ToolCall.DailyBytes)
	d.sessions, err = session.New(session.Config{
		DB: d.db, Journal: d.journal, Now: now, Idle: d.Settings.Sessions.Idle(),
		OnClose: []func(*store.Tx, palyra.SessionID, string) error{
			func(tx *store.Tx, id palyra.SessionID, by string) error {
				return d.desk.EndSession(tx, id, palyra.Principal(by))
			},
			func(tx *store.Tx, id palyra.SessionID, _ string) error {
				tx.OnDone(func(kept bool) {
					if kept {
						p.calls.SessionEnded(id)
					}
				})
				return nil
			},
		},
	})
	if err != nil {
		return err
	}
	if err := d.openUndo(p); err != nil {
		return err
	}
	g, err := gate.New(gate.Config{
		Ledger: p.ledger, Catalog: p.catalog, Planner: p.planner, Judge: d.policy, Desk: d.desk, Runner: p,
		Attester: d.attester, NewID: newID, Now: now, Log: d.Log, Mask: masked.Words{Masker: d.Mask}, Foresee: p.runner.Foresee,
	})
	if err != nil {
		return err
	}
	p.calls, err = run.NewCalls(run.CallsConfig{
		Gate: g, Ledger: p.ledger, Sessions: d.sessions, Now: now, Log: d.Log, Lease: d.desk.Lease, CutOff: d.sweep,
		Held: heldCall(d.journal), Settled: p.tiers.Runner.Forget,
	})
	if err != nil {
		return err
	}
	d.desk.OnLeaseEnd(p.calls.LeaseEnded)
	d.desk.OnSettled(p.calls.ApprovalSettled)
	d.path, d.devices.Calls = p, p.calls
	return d.openRuns(p)
}

// openUndo makes what calls changed and replaced known.
func (d *Daemon) openUndo(p *path) (err error) {
	d.undo, err = undo.New(undo.Config{
		Lists: d.files, Calls: p.ledger.Get, Journal: d.journal, Kept: d.openKept(p.tiers), Now: now, Log: d.Log,
		Staged: p.tiers.Runner.Reviewer, Masks: p.tiers.Masks, Sealer: d.vault.UndoSealer(),
		For: prune.Days(d.Settings.Undo.Days), Most: d.Settings.Undo.Bytes,
	})
	return err
}

// Output implements sandbox.Streams: whoever follows the call hears it.
func (p *path) Output(call palyra.CallID, c palyra.Chunk) { p.calls.Output(call, c) }

// Feed implements sandbox.Streams.
func (p *path) Feed(call palyra.CallID) (<-chan palyra.Feed, bool) { return p.calls.Feed(call) }

// Run implements gate.Runner: the plan's tier says who runs it.
func (p *path) Run(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	if l.Plan().Source == palyra.SourceMCP && p.upstreams != nil {
		return p.upstreams.Call(ctx, l, c)
	}
	if l.Plan().Source == palyra.SourceSkill && p.skills != nil {
		return p.skills.Call(ctx, l, c)
	}
	switch plan := l.Plan(); {
	case plan.Tier == palyra.TierB, plan.Tier == palyra.TierC, plan.Tool == palyra.ToolStageKeep, plan.Tool == palyra.ToolStageDrop:
		return p.tiers.Run(ctx, l, c)
	}
	return p.runner.Run(ctx, l, c) // which refuses every tier but its own
}

// Settle implements gate.Runner: only the tiers have stages.
func (p *path) Settle(ctx context.Context, c *palyra.Call, keep bool) palyra.Result {
	return p.tiers.Settle(ctx, c, keep)
}
