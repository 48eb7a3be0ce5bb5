// Package tool is the common part of Palyra's own, in-process tools: the small driver each of them implements,
// the set they are gathered in, and the runner that executes a granted plan with one of them.
//
// Words: a Tool says what it is (Spec), adds to a plan what only it knows (Plan) and does what the plan says
// (Run). Plan looks at the world and changes nothing; Run does exactly what was planned or fails.
//
// Promises of the Runner: nothing runs without a grant; a plan that would now resolve differently is refused and
// nothing runs; output over the cap is kept as an artifact, never lost and never delivered whole; a panic in a tool
// is a failed run. It does not sandbox: these tools are part of the daemon, and each says itself what confines it.
//
// The tools are leaves, a package each below this one, with a list of what they offer; the daemon
// puts the lists together.
//
// Its words are those of docs/words.md.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"palyra"
	"palyra/internal/canon"
)

// Tool is one in-process tool.
type Tool interface {
	// Spec describes the tool; it is the same at every call.
	Spec() palyra.Tool
	// Plan adds reads, writes, inputs and detail to a plan whose arguments,
	// workspace and limits are filled in. Equal worlds give equal plans.
	Plan(ctx context.Context, env Env, p *palyra.Plan) error
	// Run does what p says and returns the JSON that the agent gets. An error
	// means that the tool failed and left nothing behind.
	Run(ctx context.Context, env Env, p palyra.Plan) (json.RawMessage, error)
}

// Confined is implemented by tools that name mechanisms in the attestation.
type Confined interface {
	// Mechanisms names what confines a run of p, such as "openat2_beneath".
	Mechanisms(p palyra.Plan) []string
}

// Foreseer is implemented by tools whose run keeps what it replaces, and can do that for who makes the change by other
// tools.
type Foreseer interface {
	Tool
	// Foresees says that a run with Env.Foreseen changes nothing.
	Foresees()
}

// Env is what a tool may know of a call besides its plan.
type Env struct {
	Call    palyra.CallID
	Session palyra.SessionID

	Principal palyra.Principal // whose call it is
	Proposal  palyra.Proposal  // as it was made

	Asked   string        // the workspace directory as the caller spelled it
	Parent  palyra.CallID // the running call that this one came out of; empty: none
	Purpose string        // of the parent, for people

	Reach palyra.Reach // what the caller may do with what others began

	Approved   bool              // somebody said yes to the plan, for this call or by a lease
	Separation palyra.Separation // of that answer
	Check      bool              // the agent does it by its own tools, if it may

	// Flow, which is set for Run only, is called with every connection that the tool made or was refused.
	Flow func(palyra.EgressFlow)

	// Foreseen, which is set for Run only and only of a Foreseer, has it change nothing. It is called once what the run
	// would replace is kept; told is to be called with whether somebody else may replace it now.
	Foreseen func(told func(bool))

	// Changed, which is set for Run only, is called with what the tool changed in the workspace, once it is there to stay.
	Changed func([]palyra.Change)
}

// EnvOf returns the environment of a call.
func EnvOf(c *palyra.Call) Env {
	return Env{
		Call: c.ID, Session: c.Proposal.Session, Principal: c.Proposal.Principal, Proposal: c.Proposal, Asked: c.Proposal.Workspace,
		Parent: c.Proposal.Parent, Purpose: c.Proposal.Purpose, Approved: c.Decision.Answer == palyra.AnswerAllow,
		Separation: c.Decision.Separation,
		Reach:      c.Proposal.Reach(), Check: c.Proposal.Check,
	}
}

// Layers knows the stages of agents.
type Layers interface {
	// Layer returns the agent on whose stage a call works, and its workspace as it is there, which the caller closes; no
	// agent: on none. The error says why it cannot work there.
	Layer(p palyra.Proposal, workspace string) (palyra.CallID, *os.File, error)
}

// layerKey is what a context has the workspace under that a tool works in instead.
type layerKey struct{}

// LayerOf returns the workspace as it is on the stage of the agent that a tool works for; nil: it works in the workspace.
func LayerOf(ctx context.Context) *os.File {
	dir, _ := ctx.Value(layerKey{}).(*os.File)
	return dir
}

// enter has a tool that works in a workspace do so on the stage of the agent that it works for.
func (s *Set) enter(ctx context.Context, c *palyra.Call, workspace string) (_ context.Context, of palyra.CallID, done func(), err error) {
	done = func() {}
	if s.Layers == nil || workspace == "" || c.Proposal.Check {
		return ctx, "", done, nil
	}
	of, dir, err := s.Layers.Layer(c.Proposal, workspace)
	if err != nil || of == "" {
		return ctx, "", done, err
	}
	return context.WithValue(ctx, layerKey{}, dir), of, func() { _ = dir.Close() }, nil
}

// Set is the tools by name.
type Set struct {
	Layers Layers // nil: no agent has a stage

	byName map[palyra.ToolName]Tool
	specs  []palyra.Tool
}

// NewSet gathers tools. It refuses a list with two of one name, or one without a description.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{byName: map[palyra.ToolName]Tool{}}
	for _, t := range tools {
		spec := t.Spec()
		if _, dup := s.byName[spec.Name]; dup {
			return nil, fmt.Errorf("tool: new set: two tools are called %q", spec.Name)
		}
		if spec.Name == "" || spec.Description == "" || spec.Source != palyra.SourceBuiltin || spec.Tier != palyra.TierBuiltin ||
			spec.MaxInput <= 0 || !json.Valid(spec.InputSchema) {
			return nil, fmt.Errorf("tool: new set: the spec of %q is incomplete", spec.Name)
		}
		s.byName[spec.Name] = t
		s.specs = append(s.specs, spec)
	}
	sort.Slice(s.specs, func(i, j int) bool { return s.specs[i].Name < s.specs[j].Name })
	return s, nil
}

// Specs returns every tool's description, by name.
func (s *Set) Specs() []palyra.Tool { return s.specs }

// Tool returns the description of a tool of the set.
func (s *Set) Tool(name palyra.ToolName) (palyra.Tool, bool) {
	t, ok := s.byName[name]
	if !ok {
		return palyra.Tool{}, false
	}
	return t.Spec(), true
}

// Plan lets the call's tool add to its plan.
func (s *Set) Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan) error {
	t, ok := s.byName[p.Tool]
	if !ok {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonUnknownTool, "there is no built-in tool %q", palyra.Clip(p.Tool, 128))
	}
	ctx, of, done, err := s.enter(ctx, c, p.Workspace.Path)
	if err != nil {
		return err
	}
	defer done()
	if of != "" {
		p.Staging = palyra.Staging{Writes: palyra.WritesStaged, Of: of}
		p.Detail.Notes = append(p.Detail.Notes, "works on the layer of agent "+string(of)+", of which a person keeps what is wanted")
	}
	return t.Plan(ctx, EnvOf(c), p)
}

// Arguments reads a plan's arguments into v. The catalog has checked them against the schema; a
// field that v lacks is a defect and refused.
func Arguments(p palyra.Plan, v any) error {
	dec := json.NewDecoder(bytes.NewReader(p.Arguments))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "the arguments of %s cannot be read", p.Tool).
			WithRemedy("see 'palyra tools show %s'", p.Tool).WithCause(err)
	}
	return nil
}

// Encode writes a tool's result as JSON. HTML characters stay readable.
func Encode(v any) (json.RawMessage, error) {
	text, err := canon.JSON(v)
	if err != nil {
		return nil, fmt.Errorf("tool: encode: %w", err)
	}
	return text, nil
}
