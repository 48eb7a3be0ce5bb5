// Package rpctest holds parts that only pretend, for tests of the doors and of the client: they answer every
// question with something plausible and remember what they were asked. They check nothing; the chain before them is
// what is under test.
package rpctest

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/access"
	"palyra/internal/rpc/approvals"
	"palyra/internal/rpc/attestations"
	"palyra/internal/rpc/changes"
	"palyra/internal/rpc/devices"
	"palyra/internal/rpc/journal"
	"palyra/internal/rpc/keys"
	"palyra/internal/rpc/mcp"
	observesvc "palyra/internal/rpc/observe"
	"palyra/internal/rpc/policy"
	"palyra/internal/rpc/runs"
	"palyra/internal/rpc/sandbox"
	"palyra/internal/rpc/sessions"
	"palyra/internal/rpc/skills"
	"palyra/internal/rpc/status"
	"palyra/internal/rpc/tools"
	"palyra/internal/rpc/vault"
	"palyra/internal/rpc/wire"
	"palyra/internal/rpc/workspaces"
)

// StateID is the audience of signatures in tests.
const StateID = "01STATE"

// Parts pretends to be the daemon's parts.
type Parts struct {
	// Registry serves AccessService; a test may put a real one here.
	Registry access.Registry
	// OnCall, if set, takes the place of a call's outcome.
	OnCall func(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error)
	// OnTools happens while the tools are listed.
	OnTools func(ctx context.Context)
	// OnCheck, if set, takes the place of a check's outcome.
	OnCheck func(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error)
	// OnWatch, if set, takes the place of the outcome of a call that is watched.
	OnWatch func(ctx context.Context, id palyra.CallID, w palyra.Watch) (palyra.Outcome, error)
	// OnSend, if set, takes what is sent to a call.
	OnSend func(id palyra.CallID, f palyra.Feed) error
	// OnAttach, if set, comes before a tape is told; its error ends that.
	OnAttach func(id palyra.RunID) error
	// OnDecide, if set, answers a vote.
	OnDecide func(v palyra.Vote) (palyra.Approval, error)
	// Whose, if set, says who proposed the calls, started the runs and asked the
	// questions there are, and in which workspace; nil: whoever asks for them.
	Whose func(rpc.Caller) (p palyra.Proposal, workspace string)
	// Entries is the journal.
	Entries []palyra.Entry

	mu      sync.Mutex
	seen    []string
	who     rpc.Caller
	tapes   map[palyra.RunID]*FakeTape
	started runs.StartRequest
}

// Services returns every service, on the parts.
func (p *Parts) Services() []rpc.Service {
	desk := approvals.New(desk{p}, leases{p}, time.Now)
	return []rpc.Service{
		status.New(daemon{p}), tools.New(catalog{p}, calls{p}, calls{p}), desk, runs.New(runsPart{p}, desk),
		sessions.New(sessionsPart{p}), workspaces.New(workspacesPart{p}), access.New(p.Registry).WithConsole(console{p}), keys.New(ring{p}),
		journal.New(log{p}), policy.New(policyPart{p}, bundlesPart{p}, historyPart{p}), attestations.New(attest{p}),
		sandbox.New(sandboxPart{p}), changes.New(calls{p}, changesPart{p}),
		vault.New(vaultPart{p}, func(a, _ palyra.Role) palyra.Role { return a }, os.TempDir()),
		skills.New(skillsPart{p}, func(a, _ palyra.Role) palyra.Role { return a }),
		observesvc.New(observation{p}), mcp.New(upstreamsPart{p}),
		devices.New(devicesPart{p}, devicesPart{p}, devicesPart{p}, devicesPart{p}, devicesPart{p}),
	}
}

// Seen returns what was asked so far, and forgets it.
func (p *Parts) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seen
	p.seen = nil
	return s
}

// Who returns the last caller.
func (p *Parts) Who() rpc.Caller {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.who
}

func (p *Parts) note(ctx context.Context, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, what)
	p.who = rpc.CallerOf(ctx)
}

// At is the time at which everything happened.
var At = time.Date(2026, 11, 15, 12, 0, 0, 123456789, time.UTC)

type daemon struct{ *Parts }

func (d daemon) Status(ctx context.Context) (wire.Status, error) {
	d.note(ctx, "status")
	return wire.Status{
		Version: "1", StateID: StateID, Instance: "I", PID: 7, StartedAt: At, Home: "/h", KeysDir: "/k", JournalOK: true,
		Features: map[string]string{"landlock": "7"}, Problems: []string{"none"},
	}, nil
}

func (d daemon) Shutdown(ctx context.Context, _ palyra.Principal) error {
	d.note(ctx, "shutdown")
	return nil
}

type catalog struct{ *Parts }

// Echo is the one tool.
var Echo = palyra.Tool{
	Name: "palyra.echo", Description: "says <it> again", Source: palyra.SourceBuiltin,
	Capabilities: []palyra.Capability{palyra.FilesystemRead},
	Tier:         palyra.TierBuiltin, ReadOnly: true, InputSchema: json.RawMessage(`{"type":"object","maximum":9007199254740993}`),
	MaxInput: 1 << 20,
}

func (c catalog) Tools(ctx context.Context) ([]palyra.Tool, error) {
	c.note(ctx, "tools")
	if c.OnTools != nil {
		c.OnTools(ctx)
	}
	return []palyra.Tool{Echo}, nil
}

func (c catalog) Tool(ctx context.Context, name palyra.ToolName) (palyra.Tool, error) {
	c.note(ctx, "tool "+string(name))
	return Echo, nil
}

type calls struct{ *Parts }

func (c calls) CallTied(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	return c.Call(ctx, p, w)
}

func (c calls) Call(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	c.note(ctx, "call "+string(p.Tool))
	if c.OnCall != nil {
		return c.OnCall(ctx, p, w)
	}
	return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: p.Tool, Output: p.Arguments}, nil
}

func (c calls) Check(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	c.note(ctx, "check "+string(p.Tool))
	if c.OnCheck != nil {
		return c.OnCheck(ctx, p, w)
	}
	return palyra.Outcome{Outcome: palyra.OutcomeAllowed, Tool: p.Tool}, nil
}

func (c calls) Observe(ctx context.Context, p palyra.Proposal, _ palyra.Watch) (palyra.Outcome, error) {
	c.note(ctx, "observe "+string(p.Tool))
	return palyra.Outcome{Outcome: palyra.OutcomeObserved, Tool: p.Tool}, nil
}

type observation struct{ *Parts }

func (o observation) Observation(ctx context.Context) (palyra.Observation, error) {
	o.note(ctx, "observation")
	return palyra.Observation{}, nil
}

func (o observation) Set(ctx context.Context, span time.Duration, by palyra.Principal, _ palyra.Signature) (palyra.Observation, error) {
	o.note(ctx, "observe for "+span.String())
	return palyra.Observation{On: span > 0, Until: At.Add(span), By: by}, nil
}

// Watch notes nothing: the call was looked up before, and news of it may be on its way when this begins.
func (c calls) Watch(ctx context.Context, id palyra.CallID, w palyra.Watch) (palyra.Outcome, error) {
	if c.OnWatch != nil {
		return c.OnWatch(ctx, id, w)
	}
	return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: id}, nil
}

func (c calls) Send(ctx context.Context, id palyra.CallID, _ palyra.Reach, f palyra.Feed) error {
	c.note(ctx, "send "+string(id))
	if c.OnSend != nil {
		return c.OnSend(id, f)
	}
	return nil
}

func (c calls) Cancel(ctx context.Context, id palyra.CallID) error {
	c.note(ctx, "cancel "+string(id))
	return nil
}

// Printed is of the call "mine".
func (c calls) Printed(id palyra.CallID, from int64, _ int) (palyra.Chunk, int64, bool) {
	return palyra.Chunk{Offset: max(from, 0), Data: []byte("ready\n")}, 6, id == "mine"
}

// Held finds nothing.
func (c calls) Held(context.Context, palyra.CallID) error { return nil }

// Get returns a call of whoever asks, or of agent:other for the id "other".
func (c calls) Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error) {
	c.note(ctx, "get "+string(id))
	call := &palyra.Call{ID: id, State: palyra.Finished, Proposed: At, Proposal: proposedBy(rpc.CallerOf(ctx))}
	if c.Whose != nil {
		call.Proposal, call.Plan.Workspace.Path = c.Whose(rpc.CallerOf(ctx))
	}
	if id == "other" {
		call.Proposal = palyra.Proposal{Proposer: palyra.Proposer{Principal: "agent:other"}}
	}
	call.Plan.Arguments = json.RawMessage(`{"n":9007199254740993}`)
	return call, nil
}

func (c calls) List(ctx context.Context, f palyra.CallFilter) ([]*palyra.Call, palyra.CallID, error) {
	who := f.Principal
	if !f.Reach.Person {
		who = f.Reach.Principal
	}
	c.note(ctx, "calls "+string(who))
	var out []*palyra.Call
	for range min(f.Limit, 2) {
		call := &palyra.Call{ID: "C", Proposal: palyra.Proposal{Proposer: palyra.Proposer{Principal: who}}}
		if c.Whose != nil {
			call.Proposal, call.Plan.Workspace.Path = c.Whose(rpc.CallerOf(ctx))
		}
		if c.Whose == nil || f.Reach.May(palyra.ActSee, call.Reached()) {
			out = append(out, call)
		}
	}
	if len(out) < int(f.Limit) {
		return out, "", nil
	}
	return out, "C", nil
}

type desk struct{ *Parts }

// Question is the one approval.
var Question = palyra.Approval{
	ID: "A1", Call: "C1", Principal: "agent:local", RequestedAt: At, ExpiresAt: At.Add(time.Minute), SubjectType: palyra.SubjectTool,
	PlanDigest: "sha256:00", Plan: palyra.Plan{Tool: "palyra.fs.write", Arguments: json.RawMessage(`{"a":"<&>"}`)},
	Prompt: palyra.Prompt{Title: "t", Summary: "s", Risk: palyra.Risk{Level: palyra.RiskHigh}, Options: []palyra.Widening{{Name: "exact"}}},
}

// question is the one approval, where it is asked.
func (d desk) question(ctx context.Context) palyra.Approval {
	a := Question
	if d.Whose != nil {
		var p palyra.Proposal
		p, a.Plan.Workspace.Path = d.Whose(rpc.CallerOf(ctx))
		a.Principal = p.Principal
	}
	return a
}

func (d desk) List(ctx context.Context, f palyra.ApprovalFilter) (palyra.ApprovalPage, error) {
	d.note(ctx, "approvals "+string(f.SubjectType))
	return palyra.ApprovalPage{Approvals: []palyra.Approval{d.question(ctx)}, Next: "next"}, nil
}

func (d desk) Get(ctx context.Context, id palyra.ApprovalID) (palyra.Approval, error) {
	d.note(ctx, "approval "+string(id))
	return d.question(ctx), nil
}

func (d desk) Decide(ctx context.Context, v palyra.Vote) (palyra.Approval, error) {
	d.note(ctx, "decide "+string(v.Approval))
	if d.OnDecide != nil {
		return d.OnDecide(v)
	}
	a := Question
	a.Decision = palyra.Decision{Answer: v.Answer, By: v.By, At: v.At, Votes: []palyra.Vote{v}}
	return a, nil
}

func (d desk) Watch(ctx context.Context, f func(palyra.Approval) error) error {
	d.note(ctx, "watch")
	if err := f(d.question(ctx)); err != nil || d.Whose != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (d desk) Export(ctx context.Context, w io.Writer, format string, _ palyra.ApprovalFilter, _ palyra.Principal) error {
	d.note(ctx, "export "+format)
	_, err := w.Write(make([]byte, 200<<10))
	return err
}

type leases struct{ *Parts }

func (l leases) Leases(ctx context.Context, f palyra.LeaseFilter) (palyra.LeasePage, error) {
	l.note(ctx, "leases "+string(f.Principal))
	return palyra.LeasePage{Leases: []palyra.Lease{{ID: "L1", UsesLeft: -1, CreatedAt: At}}}, nil
}

func (l leases) Lease(ctx context.Context, id palyra.LeaseID) (palyra.Lease, error) {
	l.note(ctx, "lease "+string(id))
	return palyra.Lease{ID: id, UsesLeft: -1}, nil
}

func (l leases) Revoke(ctx context.Context, id palyra.LeaseID, by palyra.Principal, _ palyra.Signature) (palyra.Lease, error) {
	l.note(ctx, "revoke "+string(id))
	return palyra.Lease{ID: id, RevokedBy: by, RevokedAt: At}, nil
}

// proposedBy is a proposal of the caller's own.
func proposedBy(c rpc.Caller) palyra.Proposal {
	return palyra.Proposal{
		Proposer: palyra.Proposer{
			Principal: c.Principal, Owner: c.Owner, Parent: c.Room, Room: c.Room, Line: c.Line, Origin: c.Origin,
			Credential: c.CredentialID, Within: c.Within,
		},
	}
}
