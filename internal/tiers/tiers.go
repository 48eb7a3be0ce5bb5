// Package tiers puts together what runs programs on this machine: the drivers of its tiers, the guard between them and
// the network, the profiles of rooms, the tool that plans programs and the runner that starts them. It also says what of
// it cannot be used here, tries the tiers out, and looks after what a program may have left.
package tiers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"palyra"
	"palyra/internal/command"
	"palyra/internal/config"
	"palyra/internal/dotenv"
	"palyra/internal/egress"
	"palyra/internal/egress/lend"
	"palyra/internal/journal"
	"palyra/internal/mask"
	"palyra/internal/profile"
	"palyra/internal/publish"
	"palyra/internal/run"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
	"palyra/internal/seal/trustedfiles"
	"palyra/internal/skill"
	"palyra/internal/tool/process"
	"palyra/secrets"
)

// Config says what the tiers stand on. Now and Log are required.
type Config struct {
	Settings   config.Config
	StateID    string
	CellDigest string                                  // SHA-256 of the palyra-cell to run, in hex; without it no program is run
	Drivers    func(Config) ([]sandbox.Backend, error) // makes those of this system
	Journal    *journal.Journal
	Agents     sandbox.Agents                                  // answers runs that are agents themselves
	Streams    sandbox.Streams                                 // hears and feeds runs
	Mask       *mask.Masker                                    // masks what they print; nil: nothing is
	Ports      *publish.Ports                                  // publishes ports of background processes
	Started    func(palyra.CallID)                             // is told of background processes that run; or nil
	Vault      Vault                                           // lends secrets; nil: there are none
	Ask        egress.Ask                                      // puts hosts to people
	Calls      func() *run.Calls                               // of which running ones ask for signatures
	Lists      Lists                                           // keeps what runs changed; nil: nobody does
	Room       func(bytes int64) (never bool, pushesOut int64) // what keeping so many replaced bytes means (undo.Room); nil: nothing
	// Packs are the folders of skills, as they are verified now.
	Packs   func(context.Context, palyra.Plan) (skill.Unpacked, error)
	Posture func(palyra.Tier) (palyra.Digest, bool) // what was found out about a tier
	Now     func() time.Time
	Log     *slog.Logger
}

// Tiers are the tiers that run programs: the tool that plans them and the runner that starts them.
type Tiers struct {
	Config
	Tool     *process.Driver
	Runner   *sandbox.Runner
	Guard    *egress.Guard
	Profiles *profile.Set
	Masks    *dotenv.Masks // files like .env, as they are shown
	backends []sandbox.Backend
	places   config.Places
	chosen   map[string]fs.FileMode // modes of Palyra's own paths, at the start
	trusted  trustedfiles.TrustedFiles
	lent     sync.Map // of scripts that run: what they used of what was lent to them, by their calls
}

// Places are the directories that programs run with.
func (c Config) Places() config.Places { return c.Settings.Places(c.StateID) }

// Open makes ready what runs programs. A host on which a tier cannot be used still starts: calls that need the tier are
// refused with the reason.
func Open(c Config) (_ *Tiers, err error) {
	t := &Tiers{Config: c, places: c.Places()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	t.chosen = modes(c.Settings.Private())
	if t.backends, err = c.Drivers(c); err != nil {
		return nil, err
	}
	if t.Guard, err = guardOf(c.Settings.Egress, c.Ask, c.Now, c.Log); err != nil {
		return nil, err
	}
	t.Profiles, err = profile.New(profile.Config{Dir: profileDir(c.Settings), Caches: t.places.Caches, Home: homeOf})
	if err != nil {
		return nil, err
	}
	if t.Masks, err = masksOf(c.Settings, nil); err != nil {
		return nil, err
	}
	groups, err := c.Settings.HostGroups()
	if err != nil {
		return nil, err
	}
	t.Tool, err = process.New(programs(process.Config{
		Tiers: t, Stages: t, Profiles: rooms{t.Profiles}, Named: command.Hosts, Groups: groups, Seals: seal.Default,
		Agent: agentTools(), Ports: t.Ports, Secrets: t.Vault, Keys: keyRoom, Masked: t.Masks.On,
	}, c.Settings, t.Guard))
	if err != nil {
		return nil, err
	}
	t.Runner, err = t.runner()
	return t, err
}

// programs fills in what the configuration says about programs.
func programs(conf process.Config, c config.Config, hosts *egress.Guard) process.Config {
	p := c.Process
	conf.StageAll = p.Stage == "all"
	conf.Enabled, conf.Tier, conf.Hosts = p.Tier != "off", tierOf(p.Tier), hosts
	conf.Wall, conf.AgentWall = c.ToolCall.ExecutionTimeoutMS, c.ToolCall.RunTimeoutMS
	conf.Limits = palyra.Limits{
		CPUMS: p.CPUMS, MemoryBytes: p.MemoryBytes, Processes: p.Processes, OpenFiles: p.OpenFiles, FileBytes: p.FileBytes,
		EmittedBytes: p.EmittedBytes, DiskBytes: p.DiskBytes,
	}
	return conf
}

// AgentWall is the most time for a call whose program is an agent itself, which may take as long as a run, and for a
// background process, which no setting makes longer.
func AgentWall(c config.ToolCall) func(palyra.Proposal) (time.Duration, string) {
	return func(p palyra.Proposal) (time.Duration, string) {
		var args struct {
			Agent bool `json:"agent_socket"`
		}
		if p.Tool == palyra.ToolProcessStart {
			return process.BackgroundWall, ""
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

// runner puts the sandbox over its backends.
func (t *Tiers) runner() (*sandbox.Runner, error) {
	p := t.Settings.Process
	return sandbox.New(sandbox.Config{
		Backends: t.backends, Stdin: t.stdin, Size: t.size, Cage: t.cage,
		Dir: t.places.Cells, Caches: t.places.Caches, Agents: t.Agents, Ports: links{t.Ports}, Started: t.Started,
		Guard:   egressGuard{t.Guard, t.Settings.Egress, t.Vault, t.strayPlaceholder, t.recordUse, t.signing(), t.signature},
		Streams: t.Streams, Mask: t.Mask,
		Own: palyra.Executable{Path: t.CellPath(), Digest: palyra.Digest("sha256:" + t.CellDigest)}, Posture: t.Posture,
		Masks: t.Masks, Changed: t.sealsChanged, Swapped: t.inputsChanged, Left: t.leftBehind, List: t.list, Probed: p.Posture == "require",
		Grace: p.Grace(), Now: t.Now, Log: t.Log,
	})
}

// sealsChanged puts on record that somebody changed what is sealed while a run
// was under way: the run could not, and what others may do there is not known.
func (t *Tiers) sealsChanged(ctx context.Context, c *palyra.Call, paths []string) {
	t.changedMeanwhile(ctx, c, palyra.ReasonSealDenied, paths, 0)
}

// inputsChanged puts on record that what a run read was not certain to be what was approved.
func (t *Tiers) inputsChanged(ctx context.Context, c *palyra.Call, paths []string) {
	t.changedMeanwhile(ctx, c, palyra.ReasonInputChanged, paths, 0)
}

// leftBehind puts on record that sealed names came into git's index or commits: with
// the next checkout or push they are what the seals keep out.
func (t *Tiers) leftBehind(ctx context.Context, c *palyra.Call, left []palyra.Remnant) {
	var paths []string
	more := int64(0)
	for _, r := range left {
		if r.Kind == palyra.RemnantCommitted {
			paths = append(paths, r.Path)
			more += r.More
		}
	}
	if len(paths) > 0 {
		t.changedMeanwhile(ctx, c, palyra.ReasonSealedCommitted, paths, more)
	}
}

func (t *Tiers) changedMeanwhile(ctx context.Context, c *palyra.Call, why palyra.Reason, paths []string, more int64) {
	_, err := t.Journal.Record(context.WithoutCancel(ctx), palyra.AlertRaised{
		Reason: why, Principal: c.Proposal.Principal, PeerUID: c.Proposal.PeerUID, Method: string(process.Name), Call: c.ID,
		Path: palyra.Clip(string(palyra.TextOfPath(paths[0])), 1024), Count: int64(len(paths)) + more,
	})
	if err != nil {
		t.Log.Error("the alert is not on record", "error", err)
	}
}

// strayPlaceholder puts on record that a placeholder stood where its value does not go. It stays one there.
func (t *Tiers) strayPlaceholder(ctx context.Context, c *palyra.Call, binding, host string) {
	t.changedMeanwhile(ctx, c, secrets.ReasonStray, []string{binding + " at " + host}, 0)
}

// signature puts a signature with a lent key on record before it is made.
func (t *Tiers) signature(ctx context.Context, c *palyra.Call, host string, s lend.Signature) error {
	_, err := t.Journal.Record(ctx, palyra.SignatureMade{
		Type: string(s.Binding.Kind), Binding: s.Binding.Name, Key: s.Binding.Secret, For: s.Binding.Place + " at " + host,
		Payload: s.Payload, Signed: s.Request, Shown: s.Shown, Call: c.ID,
	})
	return err
}

// Promise implements the process tool's Tiers.
func (t *Tiers) Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	return t.Runner.Promise(ctx, tier, l)
}

// Stageable implements the process tool's Stages.
func (t *Tiers) Stageable(ctx context.Context, plan palyra.Plan) string {
	return t.Runner.Stageable(ctx, plan)
}

// Layer implements the tools' Layers.
func (t *Tiers) Layer(p palyra.Proposal, workspace string) (palyra.CallID, *os.File, error) {
	if t.Runner == nil { // of a configuration that is only thought of
		return "", nil, nil
	}
	return t.Runner.Layer(p, workspace)
}

// Run runs a program and looks after what it may have left.
func (t *Tiers) Run(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	var res palyra.Result
	switch l.Plan().Tool {
	case palyra.ToolStageKeep, palyra.ToolStageDrop:
		res = t.Runner.Review(ctx, l, c)
	default:
		res = t.Runner.Run(ctx, l, c)
	}
	if l.Plan().Workspace.Owner == int64(os.Geteuid()) {
		t.keepPrivate(ctx, c)
	}
	t.listChanges(ctx, c, &res)
	return res
}

// Close ends what runs and gives the drivers back.
func (t *Tiers) Close() error {
	if t.Runner != nil {
		return t.Runner.Close()
	}
	var errs []error
	for _, b := range t.backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// CellPath is where palyra-cell lies: as configured, beside this program, or in
// ../libexec/palyra. PATH is never searched.
func (c Config) CellPath() string {
	if c.Settings.Process.Cell != "" {
		return c.Settings.Process.Cell
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

// Mark names this daemon's runs to those who look for what an earlier one left.
// A copy of the state elsewhere has the same id and other runs.
func (c Config) Mark() string {
	sum := sha256.Sum256([]byte(c.Places().Cells))
	return fmt.Sprintf("%s-%x", c.StateID, sum[:4])
}
