package palyra

import (
	"encoding/json"
	"slices"

	"palyra/internal/canon"
)

// Proposal is what an agent said: nothing in it is trusted but its Proposer.
type Proposal struct {
	Proposer

	Key       string          `json:"key,omitempty"`       // client's idempotency key, unique in the session
	Workspace string          `json:"workspace,omitempty"` // directory asked for; resolved by the planner
	Tool      ToolName        `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	NoWait    bool            `json:"no_wait,omitempty"`    // an ask is refused at once
	Check     bool            `json:"check,omitempty"`      // the caller only asks and runs it itself: nothing runs here
	Observe   bool            `json:"observe,omitempty"`    // the caller runs it whatever the answer would be: nobody is asked, nothing runs here
	TimeoutMS int64           `json:"timeout_ms,omitempty"` // may only lower the execution limit; more is refused
}

// Proposer is who makes a proposal, in which session and run, and what it came out of: taken from the credential and
// from what the daemon knows. Surface is, too, except that api and mcp are told apart by what the client says of
// itself. Session is a claim until it is resolved, and then one that the credential may join.
type Proposer struct {
	Principal Principal `json:"principal"`
	Owner     Principal `json:"owner,omitempty"` // whose agent it is
	PeerUID   int64     `json:"peer_uid"`
	Surface   Surface   `json:"door"`
	Session   SessionID `json:"session"`
	Run       RunID     `json:"run,omitempty"`
	CallsUsed int64     `json:"calls_used,omitempty"`
	CallsMax  int64     `json:"calls_max,omitempty"` // of the run; 0: the configured one. May only lower it
	Labels    []string  `json:"labels,omitempty"`    // the session's labels so far
	Parent    CallID    `json:"parent,omitempty"`    // the running call that this one came out of; it ends with it
	Purpose   string    `json:"purpose,omitempty"`   // what the parent is, for people; see PurposeSkill
	Within    []string  `json:"within,omitempty"`    // the only workspaces that the credential reaches; empty: all

	// What decides who reaches the call; see Reach.
	Room       CallID       `json:"room,omitempty"`       // the running call at whose own door it was proposed
	Line       []CallID     `json:"line,omitempty"`       // the running calls it came out of, outermost first; the last is Parent
	Origin     Principal    `json:"origin,omitempty"`     // who proposed the outermost of them; empty: Principal
	Credential string       `json:"credential,omitempty"` // what it was proposed with
	Scopes     []Permission `json:"scopes,omitempty"`     // permissions of that; empty: those of an agent
	// it comes out of a room, though by no door of it: a host that the agent in it wants to reach
	Inside bool `json:"-"`
}

// Child is the proposer of what comes out of a running call, one call further in. A question needs neither labels nor scopes.
func (p Proposer) Child(parent *Call, purpose string) Proposer {
	p.Labels, p.Scopes = nil, nil
	p.Line = append(slices.Clone(p.Line), parent.ID)
	p.Parent, p.Purpose = parent.ID, purpose
	p.Inside = p.Inside || parent.Plan.AgentSocket
	return p
}

// Request is a plan of the proposer's as policy judges it, before anybody answers. When it is judged, the standing of
// its caller then and an answer are the judge's to add.
func (p Proposer) Request(call CallID, tool Tool, plan Plan) Request {
	return Request{
		Principal: p.Principal, Owner: p.Owner, Call: call, Session: p.Session, Run: p.Run, Parent: p.Parent, Surface: p.Surface,
		Tool: tool, Plan: plan, Labels: p.Labels, CallsUsed: p.CallsUsed, CallsMax: p.CallsMax,
	}
}

// RequestOf is a call as policy judges it, before anybody answers.
func RequestOf(c *Call) Request { return c.Proposal.Request(c.ID, c.Tool, c.Plan) }

// proposalRecord is a proposal with its members in the order of every record. What the proposer has beyond those that
// stand first follows them.
type proposalRecord struct {
	Key       string          `json:"key,omitempty"`
	Principal Principal       `json:"principal"`
	Owner     Principal       `json:"owner,omitempty"`
	PeerUID   int64           `json:"peer_uid"`
	Surface   Surface         `json:"door"`
	Session   SessionID       `json:"session"`
	Run       RunID           `json:"run,omitempty"`
	Workspace string          `json:"workspace,omitempty"`
	Tool      ToolName        `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	NoWait    bool            `json:"no_wait,omitempty"`
	Check     bool            `json:"check,omitempty"`
	Observe   bool            `json:"observe,omitempty"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
	*Proposer
}

func (p *Proposal) record() proposalRecord {
	return proposalRecord{
		p.Key, p.Principal, p.Owner, p.PeerUID, p.Surface, p.Session, p.Run,
		p.Workspace, p.Tool, p.Arguments, p.NoWait, p.Check, p.Observe, p.TimeoutMS, &p.Proposer,
	}
}

// MarshalJSON writes a proposal as one object, in the order of every record: a call's document is kept, packed and
// compared as bytes.
func (p Proposal) MarshalJSON() ([]byte, error) { return canon.JSON(p.record()) }

// Document is a call as it is kept: its JSON, whose proposal is written only once.
func (c *Call) Document() ([]byte, error) {
	return json.Marshal(struct {
		ID       CallID         `json:"call_id"`
		Proposal proposalRecord `json:"proposal"`
		*Call
	}{c.ID, c.Proposal.record(), c})
}
