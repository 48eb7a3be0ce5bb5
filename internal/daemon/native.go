package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"palyra"
	"palyra/internal/command"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/profile"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
	"palyra/internal/tool/process"
)

// native is the tiers that run programs: the tool that plans them and the
// runner that starts them.
type native struct {
	tool     *process.Driver
	runner   *sandbox.Runner
	guard    *egress.Guard
	backends []sandbox.Backend
	profiles *profile.Set
	kept     kept
}

// openNative makes ready what runs programs. A host on which a tier cannot be
// used still starts: calls that need the tier are refused with the reason.
func (d *Daemon) openNative(p *path) (err error) {
	n := &native{}
	p.native = n
	if n.backends, err = d.drivers(); err != nil {
		return err
	}
	if n.guard, err = guardOf(d.Config.Config.Egress, p.askHost, d.Log); err != nil {
		return err
	}
	if n.profiles, err = d.openProfiles(); err != nil {
		return err
	}
	n.tool, err = process.New(programs(process.Config{
		Tiers: p, Stages: p, Profiles: rooms{n.profiles}, Named: command.Hosts, Seals: seal.Default, Agent: agentTools(),
	}, d.Config.Config, n.guard))
	return err
}

// programs fills in what the configuration says about programs.
func programs(conf process.Config, c config.Config, hosts *egress.Guard) process.Config {
	p := c.Process
	conf.Enabled, conf.Tier, conf.Hosts = p.Tier != "off", tierOf(p.Tier), hosts
	conf.Wall, conf.AgentWall = c.ToolCall.ExecutionTimeoutMS, c.ToolCall.RunTimeoutMS
	conf.Limits = palyra.Limits{
		CPUMS: p.CPUMS, MemoryBytes: p.MemoryBytes, Processes: p.Processes, OpenFiles: p.OpenFiles, FileBytes: p.FileBytes,
		EmittedBytes: p.EmittedBytes, DiskBytes: p.DiskBytes,
	}
	return conf
}

// agentWall is the most time for a call whose program is an agent itself: it may
// take as long as a run.
func agentWall(c config.ToolCall) func(palyra.Proposal) (time.Duration, string) {
	return func(p palyra.Proposal) (time.Duration, string) {
		var args struct {
			Agent bool `json:"agent_socket"`
		}
		if p.Tool != palyra.ToolProcessRun || json.Unmarshal(p.Arguments, &args) != nil || !args.Agent {
			return 0, ""
		}
		return time.Duration(c.RunTimeoutMS) * time.Millisecond, "tool_call.run_timeout_ms"
	}
}

func tierOf(setting string) palyra.Tier {
	if setting == "b" {
		return palyra.TierB
	}
	return palyra.TierC
}

// openRunner puts the sandbox over its backends.
func (d *Daemon) openRunner(p *path) (err error) {
	p.native.runner, err = sandbox.New(sandbox.Config{
		Backends: p.native.backends, Stdin: p.native.tool.Stdin, Size: p.native.tool.Size,
		Dir: d.cells(), Caches: d.caches(), Agents: &d.insiders, Guard: egressGuard{p.native.guard, d.Config.Config.Egress}, Streams: p,
		Own: palyra.Executable{Path: cellPath(d.Config.Config.Process), Digest: palyra.Digest("sha256:" + d.CellDigest)}, Posture: d.current,
		Changed: d.sealsChanged, Swapped: d.inputsChanged, Left: d.leftBehind,
		Probed: d.Config.Config.Process.Posture == "require",
		Grace:  d.Config.Config.Process.Grace(), Now: now, Log: d.Log,
	})
	return err
}

// sealsChanged puts on record that somebody changed what is sealed while a run
// was under way: the run could not, and what others may do there is not known.
func (d *Daemon) sealsChanged(ctx context.Context, c *palyra.Call, paths []string) {
	d.changedMeanwhile(ctx, c, palyra.ReasonSealDenied, paths, 0)
}

// inputsChanged puts on record that what a run read was not certain to be what
// was approved.
func (d *Daemon) inputsChanged(ctx context.Context, c *palyra.Call, paths []string) {
	d.changedMeanwhile(ctx, c, palyra.ReasonInputChanged, paths, 0)
}

// leftBehind puts on record that sealed names came into git's index or commits: with
// the next checkout or push they are what the seals keep out.
func (d *Daemon) leftBehind(ctx context.Context, c *palyra.Call, left []palyra.Remnant) {
	var paths []string
	more := int64(0)
	for _, r := range left {
		if r.Kind == palyra.RemnantCommitted {
			paths = append(paths, r.Path)
			more += r.More
		}
	}
	if len(paths) > 0 {
		d.changedMeanwhile(ctx, c, palyra.ReasonSealedCommitted, paths, more)
	}
}

func (d *Daemon) changedMeanwhile(ctx context.Context, c *palyra.Call, why palyra.Reason, paths []string, more int64) {
	_, err := d.journal.Record(context.WithoutCancel(ctx), palyra.AlertRaised{
		Reason: why, Principal: c.Proposal.Principal, PeerUID: c.Proposal.PeerUID, Method: process.Name, Call: c.ID,
		Path: palyra.Clip(string(palyra.TextOfPath(paths[0])), 1024), Count: int64(len(paths)) + more,
	})
	if err != nil {
		d.Log.Error("the alert is not on record", "error", err)
	}
}

// Promise implements the process tool's Tiers.
func (p *path) Promise(ctx context.Context, t palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	return p.native.runner.Promise(ctx, t, l)
}

// Stageable implements the process tool's Stages.
func (p *path) Stageable(ctx context.Context, plan palyra.Plan) string {
	return p.native.runner.Stageable(ctx, plan)
}

// Output implements sandbox.Streams: whoever follows the call hears it.
func (p *path) Output(call palyra.ID, c palyra.Chunk) { p.calls.Output(call, c) }

// Feed implements sandbox.Streams.
func (p *path) Feed(call palyra.ID) (<-chan palyra.Feed, bool) { return p.calls.Feed(call) }

// Run implements gate.Runner: the plan's tier says who runs it.
func (p *path) Run(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	if l.Plan().Source == palyra.SourceMCP && p.upstreams != nil {
		return p.upstreams.Call(ctx, l, c)
	}
	switch l.Plan().Tier {
	case palyra.TierB, palyra.TierC:
		return p.runNative(ctx, l, c)
	}
	return p.runner.Run(ctx, l, c) // which refuses every tier but its own
}

// runNative runs a program and looks after what it may have left.
func (p *path) runNative(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	res := p.native.runner.Run(ctx, l, c)
	if l.Plan().Workspace.Owner == int64(os.Geteuid()) {
		p.guard(ctx, c)
	}
	return res
}

// cellPath is where palyra-cell lies: as configured, beside this program, or in
// ../libexec/palyra. PATH is never searched.
func cellPath(c config.Process) string {
	if c.Cell != "" {
		return c.Cell
	}
	self, err := os.Executable()
	if err != nil {
		return "" // the tier says that it cannot be used
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	beside := filepath.Join(filepath.Dir(self), cellName)
	if _, err := os.Stat(beside); err != nil {
		return filepath.Join(filepath.Dir(self), "..", "libexec", "palyra", cellName)
	}
	return beside
}

const cellName = "palyra-cell"

// mark names this daemon's runs to those who look for what an earlier one left.
// A copy of the state elsewhere has the same id and other runs.
func (d *Daemon) mark() string {
	sum := sha256.Sum256([]byte(d.cells()))
	return fmt.Sprintf("%s-%x", d.stateID, sum[:4])
}

// places are the directories that programs run with.
func (d *Daemon) places() config.Places { return d.Config.Config.Places(d.stateID) }

// cells is where runs have their private directories.
func (d *Daemon) cells() string { return d.places().Cells }

// tidy removes the directories beside that of the runs, which goes with the runner,
// where there is nothing in them.
func (d *Daemon) tidy() {
	if d.stateID == "" {
		return
	}
	for _, dir := range []string{d.caches(), d.places().Posture, d.serverDirs()} {
		_ = os.Remove(dir) // one that is not empty stays
	}
}

func (n *native) close() error {
	if n == nil {
		return nil
	}
	if n.runner != nil {
		return n.runner.Close()
	}
	var errs []error
	for _, b := range n.backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
