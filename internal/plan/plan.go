// Package plan resolves a call into its plan: everything that decides what will happen, and nothing that does not.
//
// Words: a driver knows some tools and adds to a plan what only it knows; the Resolver does what is the same for
// all: arguments in their one form, the workspace, the limits. Resolving looks at the world and changes nothing.
// The same call in the same world gives the same plan and so the same digest; the runner resolves again at launch
// and refuses when the digest differs.
//
// Its words are those of docs/words.md.
package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"palyra"
	"palyra/internal/canon"
)

// Workspaces resolves the directory a caller names.
type Workspaces interface {
	// Resolve returns the workspace for path as a caller of uid peer may use it.
	Resolve(ctx context.Context, path string, peer int64) (palyra.WorkspaceRef, error)
}

// Driver knows some tools.
type Driver interface {
	// Tool describes a tool of the driver as it is now.
	Tool(name palyra.ToolName) (palyra.Tool, bool)
	// Plan adds reads, writes, inputs and detail to a plan of one of its tools.
	Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan) error
}

// TrustedFiles knows files that other programs obey.
type TrustedFiles interface {
	// Guarded returns those of the paths, relative to the workspace, that must stay as
	// they are in a run. why: it could not be told, and all are.
	Guarded(ctx context.Context, workspace palyra.WorkspaceRef, paths []string) (guarded []string, why string, err error)
}

// Layers knows the stages of agents.
type Layers interface {
	// Layer returns the agent on whose stage a call works, and its workspace as it is there, which the caller closes; no
	// agent: on none. The error says why it cannot work there.
	Layer(p palyra.Proposal, workspace string) (palyra.CallID, *os.File, error)
	// Planted returns what programs obey on the agent's stage that a plan works on and that is not so in the workspace,
	// where the plan's run could do more with it than write there. The error says why that cannot be told.
	Planted(ctx context.Context, p palyra.Plan) ([]palyra.PathText, error)
}

// Config wires a Resolver. Zero limits get the defaults.
type Config struct {
	Workspaces   Workspaces
	Drivers      []Driver
	TrustedFiles TrustedFiles  // nil: names alone tell
	Layers       Layers        // nil: no agent has a stage
	Wall         time.Duration // of a run; a call may only lower it; default 120 s
	OutputBytes  int64         // delivered at most; default 1 MiB
	// Longer is the most that a call may ask for where that is more than Wall, and
	// the setting that says so; nil: no call may have more.
	Longer func(palyra.Proposal) (most time.Duration, setting string)
}

const (
	defaultWall   = 120 * time.Second
	defaultOutput = 1 << 20
)

// Resolver makes plans.
type Resolver struct{ Config }

// New returns a Resolver.
func New(c Config) (*Resolver, error) {
	if c.Workspaces == nil || len(c.Drivers) == 0 {
		return nil, errors.New("plan: new: a part is missing")
	}
	if c.Wall != 0 && c.Wall < time.Millisecond || c.OutputBytes < 0 {
		return nil, errors.New("plan: new: a limit is negative or too small")
	}
	c.Wall = cmp.Or(c.Wall, defaultWall)
	c.OutputBytes = cmp.Or(c.OutputBytes, defaultOutput)
	return &Resolver{c}, nil
}

// Resolve returns the plan of a call. It asks the driver what the tool is now, not what it was when the call was
// admitted: a call that waited through an upgrade resolves to another plan and is refused.
func (r *Resolver) Resolve(ctx context.Context, c *palyra.Call) (palyra.Plan, error) {
	driver, tool, err := r.find(c.Proposal.Tool)
	if err != nil {
		return palyra.Plan{}, err
	}
	p := palyra.Plan{
		Tool: tool.Name, Capabilities: slices.Sorted(slices.Values(tool.Capabilities)), Source: tool.Source,
		ReadOnly: tool.ReadOnly, Tier: tool.Tier,
	}
	if p.Arguments, err = arguments(c.Proposal.Arguments); err != nil {
		return palyra.Plan{}, err
	}
	if p.Limits, err = r.limits(c.Proposal); err != nil {
		return palyra.Plan{}, err
	}
	if tool.Workspace {
		if p.Workspace, err = r.Workspaces.Resolve(ctx, c.Proposal.Workspace, c.Proposal.PeerUID); err != nil {
			return palyra.Plan{}, err
		}
	}
	if err := checkReach(c.Proposal.Within, p.Workspace.Path, tool.Workspace); err != nil {
		return palyra.Plan{}, err
	}
	if err := driver.Plan(ctx, c, &p); err != nil {
		return palyra.Plan{}, err
	}
	workspace := p.Workspace
	if p.Tier != palyra.TierC { // nothing else is shown one
		p.Workspace.Repository = palyra.Repository{}
	}
	if err := r.stays(c, p); err != nil {
		return palyra.Plan{}, err
	}
	if err := r.unplanted(ctx, p); err != nil {
		return palyra.Plan{}, err
	}
	if err := r.guard(ctx, &p, workspace); err != nil {
		return palyra.Plan{}, err
	}
	if p.AgentWithin, err = r.widened(ctx, c.Proposal, p.AgentWithin); err != nil {
		return palyra.Plan{}, err
	}
	return p, nil
}

// stays refuses a call of an agent on a stage that would write to a workspace beside it.
func (r *Resolver) stays(c *palyra.Call, p palyra.Plan) error {
	if r.Layers == nil || p.Staging.Of != "" || p.ReadOnly || p.Workspace.Path == "" || c.Proposal.Check {
		return nil
	}
	of, dir, err := r.Layers.Layer(c.Proposal, p.Workspace.Path)
	if err != nil || of == "" {
		return err
	}
	_ = dir.Close()
	return palyra.Errorf(palyra.Denied, palyra.ReasonUnsupported,
		"the tool %s could write to the workspace beside the stage of agent %s", p.Tool, of).
		WithRemedy("have the agent do without it, or run it without --staged")
}

// unplanted refuses a call on an agent's stage that reaches beyond it, while what the agent wrote there tells programs what
// to run: whoever is asked about 'git push' sees its words and its host, and not the hook that it would start.
func (r *Resolver) unplanted(ctx context.Context, p palyra.Plan) error {
	if r.Layers == nil || p.Staging.Of == "" {
		return nil
	}
	names, err := r.Layers.Planted(ctx, p)
	if err != nil || len(names) == 0 {
		return err
	}
	const few = 3
	text := ""
	for _, n := range names[:min(len(names), few)] {
		text += ", " + palyra.Clip(string(n), 256)
	}
	if more := len(names) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
		"it would run with settings that the agent wrote on its stage, and reaches beyond that: %s", text[2:]).
		WithRemedy("have the agent put them back; or keep or drop its work first ('palyra changes %s'), and run it outside of the stage",
			p.Staging.Of)
}

// guard notes which files that would be written other programs obey, also where their names do not say so.
func (r *Resolver) guard(ctx context.Context, p *palyra.Plan, workspace palyra.WorkspaceRef) (err error) {
	if r.TrustedFiles == nil || len(p.Writes) == 0 || p.Staging.Of != "" { // a stage is judged when it is kept
		return nil
	}
	found, why, err := r.TrustedFiles.Guarded(ctx, workspace, p.Writes)
	if err != nil {
		return err
	}
	if p.Guarded = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Guarded, found)))); len(p.Guarded) == 0 {
		p.Guarded = nil
	}
	switch {
	case why != "":
		p.Detail.Notes = append(p.Detail.Notes, "it cannot be told what other programs obey in this workspace: "+why)
	case len(p.Guarded) > 0:
		p.Detail.Notes = append(p.Detail.Notes,
			"other programs obey what is written: its name says so, or a link or git's configuration leads there")
	}
	return nil
}

// widened resolves the workspaces that an agent is to reach beside its own. They are
// registered ones, which its caller reaches.
func (r *Resolver) widened(ctx context.Context, p palyra.Proposal, asked []string) ([]string, error) {
	if slices.Contains(asked, palyra.AnyWorkspace) {
		return []string{palyra.AnyWorkspace}, nil // whatever else is named
	}
	var out []string
	for _, path := range asked {
		w, err := r.Workspaces.Resolve(ctx, path, p.PeerUID)
		if err != nil {
			return nil, err
		}
		if !w.Known {
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied,
				"an agent is let into registered workspaces only, and %s is none", palyra.Clip(path, 256)).
				WithRemedy("have an operator register it: palyra workspace add")
		}
		if err := checkReach(p.Within, w.Path, true); err != nil {
			return nil, err
		}
		out = append(out, w.Path)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// checkReach refuses a workspace that the caller's credential does not reach. One that
// is bound to workspaces works in them only; what needs none reaches nothing.
func checkReach(reach []string, workspace string, needed bool) error {
	if len(reach) == 0 || !needed || palyra.Within(workspace, reach) {
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the credential reaches other workspaces only").
		WithRemedy("work in one of its workspaces ('palyra access whoami' lists them), or have an operator widen it")
}

func (r *Resolver) find(name palyra.ToolName) (Driver, palyra.Tool, error) {
	for _, d := range r.Drivers {
		if t, ok := d.Tool(name); ok {
			return d, t, nil
		}
	}
	return nil, palyra.Tool{}, palyra.Errorf(palyra.NotFound, palyra.ReasonUnknownTool, "nothing here runs the tool %q",
		palyra.Clip(name, 128)).
		WithRemedy("see 'palyra tools list'")
}

// limits are the configured ones; a call may ask for less time. One that asks for
// more is refused: it would not get what it counts on.
func (r *Resolver) limits(p palyra.Proposal) (palyra.Limits, error) {
	wall, most, setting := r.Wall.Milliseconds(), r.Wall.Milliseconds(), "tool_call.execution_timeout_ms"
	if r.Longer != nil {
		if longer, name := r.Longer(p); longer > r.Wall {
			most, setting = longer.Milliseconds(), name
		}
	}
	switch {
	case p.TimeoutMS < 0:
		return palyra.Limits{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the timeout is negative").
			WithRemedy("give a timeout of at most %d ms, or none", most)
	case p.TimeoutMS > most:
		return palyra.Limits{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput,
			"the timeout of %d ms is over the most that a call may have, %d ms", p.TimeoutMS, most).
			WithRemedy("give a timeout of at most %d ms, or none%s", most, raised(setting))
	case p.TimeoutMS > 0:
		wall = p.TimeoutMS
	}
	return palyra.Limits{WallMS: wall, OutputBytes: r.OutputBytes}, nil
}

// raised says how a bound can be raised; no setting: it cannot.
func raised(setting string) string {
	if setting == "" {
		return ""
	}
	return "; an operator can raise " + setting
}

// arguments writes the arguments in one form: keys in order, numbers in normal
// form, no spaces. Two spellings of one value are one plan.
func arguments(raw json.RawMessage) (json.RawMessage, error) {
	v, err := canon.Parse(raw)
	if err != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the arguments are not clean JSON").
			WithRemedy("send them as one JSON object").WithCause(err)
	}
	text, err := canon.JSON(v)
	if err != nil {
		return nil, fmt.Errorf("plan: arguments: %w", err)
	}
	return text, nil
}
