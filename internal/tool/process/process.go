// Package process has the tools palyra.process.run and palyra.process.start, which does not wait for the program. It
// resolves a command into a plan that says exactly which program runs, on which inputs, and under which limits. A
// sandbox backend runs it.
//
// Words: the program is the file that the kernel is given; its chain is the interpreters that "#!" lines lead to;
// the inputs are the files whose content is known to decide what the program does (a script operand, a Makefile);
// the run's user is the user that the program will run as: the workspace's owner where the daemon is root, else the
// daemon's own user. A program is sealed when that user could change or replace it: a copy that nothing can change
// is run then. In tier C a run has a room, which shows it the system's programs, the workspace and what its profile
// mounts; and a profile is what the operator furnishes the rooms of some commands with.
//
// Promises. Planning looks and changes nothing; the same call in the same world gives the same plan. A path is
// walked one component at a time from open directories, so that the checked file is the one that is read. Planning
// reads nothing that the run's user could not read: a digest tells nobody about files of others. Only regular files
// are opened. A digest is taken from a cache only for a file that the run's user cannot write, or that its room
// shows read-only, and only while the file's identity, size and times are the same. What was found for a command is
// taken again only while every path that was asked about on the way gives the same answer, names that were missing
// among them, and never where a file was read that the run's user can write. At most two plans of a driver
// hash at a time. In tier C paths mean what they mean in the room: a file that the room does not show is refused as
// a program and missing as an input, whether or not it exists outside.
//
// Programs go by every name they have: the one they are called by, those of the links passed on the
// way, the file's own, and those of an interpreter on the lookup path that is the very same file (a
// hard link, a bind mount). The bindings and the refusals of all the names count. Programs that
// only run another (env, timeout, nice and the like) are followed to that one.
//
// What it does not do. Access lists are not evaluated: they can make a file count as writable, never as readable.
// Files that a program reads on its own account, shared libraries, modules and included files among them, are not
// bound; the plan says so. Programs that run others in ways of their own (xargs, find, sudo), and wrappers with
// unknown options, are named and not followed. Copies of an interpreter under another name are not known as
// interpreters: only names and the identity of files are compared, not bytes.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/hostgroup"
	"palyra/internal/hostport"
	programs "palyra/internal/program"
	"palyra/secrets"
)

// Name of the tool.
const Name = palyra.ToolProcessRun

// Tiers says what a tier would enforce.
type Tiers interface {
	// Promise returns what would hold for a run in the tier with these limits, or an error with the
	// reason why the tier cannot be used. Equal hosts give equal answers.
	Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error)
}

// Ports says which ports can be published.
type Ports interface {
	// Check refuses ports that cannot be published. It tries none: who plans a call is not to learn which are taken.
	Check(session palyra.SessionID, ports []hostport.Pair) error
}

// Stages says whether the writes of a run can be kept apart from its workspace.
type Stages interface {
	// Stageable returns why they cannot, in few words; "": they can. Equal hosts give equal answers.
	Stageable(ctx context.Context, p palyra.Plan) (why string)
	// Layer returns the agent on whose stage a call works, and its workspace as it is there, which the caller closes; no
	// agent: on none. The error says why it cannot work there.
	Layer(p palyra.Proposal, workspace string) (palyra.CallID, *os.File, error)
}

// Named returns the hosts that the words of a command name, as host:port, so that people are asked
// about such a host once, in the plan, and not again when the program connects.
type Named func(argv []string) []string

// Config wires a Driver. Zero fields get the defaults.
type Config struct {
	Tiers     Tiers
	Stages    Stages        // nil: no plan says where its run writes
	StageAll  bool          // every run that can is staged, not only those with inputs in their workspace
	Profiles  Profiles      // nil: there are none
	Hosts     Hosts         // nil: any host may be asked for by its plain name
	Named     Named         // nil: commands name no hosts
	Groups    hostgroup.Set // of hosts that people can answer for
	Wall      int64         // default time limit of a call in milliseconds; agents may have AgentWall instead
	AgentWall int64
	Ports     Ports   // nil: nothing can be published
	Secrets   Secrets // nil: none are lent
	// Keys returns what a room gets for keys that are lent to its programs; nil: none are.
	Keys    func([]secrets.Binding) (Fittings, error)
	Agent   []palyra.Mount              // programs for runs that are agents themselves
	Masked  func(workspace string) bool // whether files like .env are masked there; nil: nowhere
	Seals   []string                    // names below the workspace that are sealed in a run without a profile; tier C
	Path    []string                    // directories to look commands up in; default those of cell.SearchPath
	Limits  palyra.Limits               // most a run may use, and its default; not wall and output, which are the resolver's
	Tier    palyra.Tier                 // of a call that names no tier; default B
	Enabled bool                        // false: every call is refused
}

// most is the default limits.
var most = palyra.Limits{
	CPUMS: 600_000, MemoryBytes: 2 << 30, Processes: 512, OpenFiles: 4096, FileBytes: 1 << 30, EmittedBytes: 64 << 20, DiskBytes: 16 << 30,
}

const (
	maxExecutable    = 1 << 30   // larger programs are not hashed
	maxScript        = 256 << 20 // nor larger inputs
	maxHashed        = 2 << 30   // nor more than this for one plan
	maxHashing       = 2         // plans that hash at a time
	cacheSize        = 1024
	maxResolutions   = 256      // commands whose resolution is remembered
	maxResolutionKey = 16 << 10 // longer ones are not
)

// Driver plans calls of the tool. It implements the planner's driver.
type Driver struct {
	Config
	tool     palyra.Tool // that waits
	start    palyra.Tool // that does not
	digests  *cache[fileKey, content]
	resolved *cache[string, *resolution] // by everything that it depends on
	known    *listing
	sealed   map[string]bool  // Seals
	hashing  chan struct{}    // one element for each plan that hashes now
	now      func() time.Time // tests set it
	maxExe   int64
}

// New returns a Driver.
func New(c Config) (*Driver, error) {
	if c.Tiers == nil {
		return nil, errors.New("process: new: a part is missing")
	}
	if known := programs.Shipped(); len(known.Bindings) == 0 || len(known.Refused) == 0 { // the files that decide a run would not be bound
		return nil, errors.New("process: new: the table of programs is broken")
	}
	c.Tier = cmp.Or(c.Tier, palyra.TierB)
	if c.Tier != palyra.TierB && c.Tier != palyra.TierC {
		return nil, fmt.Errorf("process: new: tier %q does not run native programs", c.Tier)
	}
	if len(c.Path) == 0 {
		c.Path = strings.Split(cell.SearchPath, ":")
	}
	for _, dir := range c.Path {
		if !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, ":\x00") {
			return nil, fmt.Errorf("process: new: %q cannot be a directory of the lookup path", dir)
		}
	}
	if c.Limits.WallMS != 0 || c.Limits.OutputBytes != 0 {
		return nil, errors.New("process: new: wall clock and output are limited by the resolver")
	}
	var err error
	if c.Limits, err = withDefaults(c.Limits); err != nil {
		return nil, err
	}
	c.Seals = slices.Compact(slices.Sorted(slices.Values(c.Seals)))
	sealed := make(map[string]bool, len(c.Seals))
	for _, name := range c.Seals {
		sealed[name] = true
	}
	return &Driver{
		Config: c, sealed: sealed, tool: spec(c.Tier), start: startSpec(c.Tier),
		digests: newCache[fileKey, content](cacheSize), known: newListing(),
		resolved: newCache[string, *resolution](maxResolutions),
		hashing:  make(chan struct{}, maxHashing),
		now:      time.Now, maxExe: maxExecutable,
	}, nil
}

// Specs returns the descriptions of both tools.
func (d *Driver) Specs() []palyra.Tool { return []palyra.Tool{d.tool, d.start} }

// Tool returns the tool's description. A disabled tool is known as well, so that
// its calls are refused with a reason.
func (d *Driver) Tool(name palyra.ToolName) (palyra.Tool, bool) {
	switch name {
	case Name:
		return d.tool, true
	case palyra.ToolProcessStart:
		return d.start, true
	}
	return palyra.Tool{}, false
}

// Plan resolves the call's command. It changes nothing.
func (d *Driver) Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan) error {
	if p.Tool != Name && !p.Background() {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonUnknownTool, "there is no tool %q here", palyra.Clip(p.Tool, 128))
	}
	if !d.Enabled {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "running programs is switched off").
			WithRemedy("an operator can set process.tier")
	}
	if !path.IsAbs(p.Workspace.Path) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonWorkspaceDenied, "the call has no workspace").WithRemedy("name one: --workspace DIR")
	}
	a, err := decode(*p)
	if err != nil {
		return err
	}
	lookup, err := d.fill(ctx, a, p)
	if err != nil {
		return err
	}
	if err := d.lend(ctx, c.Proposal, a, p); err != nil {
		return err
	}
	if err := d.publish(c.Proposal.Session, a, p); err != nil {
		return err
	}
	layer, err := d.layer(ctx, c, a, p)
	if err != nil {
		return err
	}
	if layer != nil {
		defer func() { _ = layer.Close() }()
	}
	why := ""
	if p.Staging.Writes == "" {
		why = d.whyLive(ctx, a, p)
	}
	if why == "" && !p.Staging.Staged() || d.Stages != nil && unasked(a, p) {
		d.apart(p)
	}
	if err := d.resolve(ctx, c.Proposal.Workspace, a, lookup, layer, p); err != nil {
		return err
	}
	d.staging(why, p)
	unpromise(p)
	d.mask(p)
	d.describe(a, p, c.Proposal.Check)
	return nil
}
