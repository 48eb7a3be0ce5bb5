package client

import (
	"encoding/json"
	"time"

	"palyra"
	"palyra/internal/rpc/wire"
)

// Types of the daemon's answers that are not words of the root.
type (
	// Status is what a daemon says of itself.
	Status = wire.Status
	// KeyPlace is where the private half of a key lies.
	KeyPlace = wire.KeyPlace
	// Head is the journal's signed checkpoint.
	Head = wire.Head
	// Report is the end of a verification.
	Report = wire.Report
	// Policy is the bundle in force.
	Policy = wire.Policy
	// PolicyFile is one file of a bundle.
	PolicyFile = wire.PolicyFile
	// Explanation says why policy answers a call the way it does.
	Explanation = wire.Explanation
	// Flip is a change after which policy answers a call differently.
	Flip = wire.Flip
	// ApprovalFilter selects approvals.
	ApprovalFilter = palyra.ApprovalFilter
	// ApprovalPage is one page of approvals.
	ApprovalPage = palyra.ApprovalPage
	// LeaseFilter selects leases.
	LeaseFilter = palyra.LeaseFilter
	// LeasePage is one page of leases.
	LeasePage = palyra.LeasePage
	// CallFilter selects calls.
	CallFilter = palyra.CallFilter
	// CallPage is one page of calls.
	CallPage = wire.CallPage
	// RunFilter selects runs.
	RunFilter = palyra.RunFilter
	// RunPage is one page of runs.
	RunPage = wire.RunPage
	// SessionFilter selects sessions.
	SessionFilter = palyra.SessionFilter
	// SessionPage is one page of sessions.
	SessionPage = wire.SessionPage
)

// CallRequest is a tool call to propose.
type CallRequest struct {
	Tool      palyra.ToolName
	Arguments json.RawMessage // a JSON object; empty means {}
	Workspace string          // directory to work in; the daemon resolves it
	Session   string          // a session's id, or a name of the client's own; empty: the default one
	Key       string          // idempotency key, unique in the session
	NoWait    bool            // refuse at once where policy asks
	Timeout   time.Duration   // may only lower the execution limit; 0: the daemon's
	Surface   palyra.Surface  // cli, api, mcp or hook; empty: api

	StreamOutput bool // tell what the call prints while it runs; the outcome holds it again
}

// CallEvent is news of a call under way. Exactly one field is set.
type CallEvent struct {
	Accepted          *CallAccepted
	ApprovalRequested *ApprovalRequested
	ApprovalResolved  *ApprovalResolved
	Running           *CallRunning
	Output            *palyra.Chunk // with CallRequest.StreamOutput
}

// CallRunning says that the call runs: its own questions are answered. It comes
// before any output, also to whoever attaches later.
type CallRunning struct{}

// CallAccepted says that the call is on record.
type CallAccepted struct {
	CallID    palyra.CallID    `json:"call_id"`
	SessionID palyra.SessionID `json:"session_id"`
}

// ApprovalRequested says that the call waits for an answer.
type ApprovalRequested struct {
	ApprovalID palyra.ApprovalID `json:"approval_id"`
	PlanDigest palyra.Digest     `json:"plan_digest"`
	ExpiresAt  time.Time         `json:"expires_at,omitzero"`
	Summary    string            `json:"summary"`
	Joined     bool              `json:"joined,omitempty"` // another call asked the same question first
}

// ApprovalResolved says how the question was settled.
type ApprovalResolved struct {
	ApprovalID palyra.ApprovalID `json:"approval_id"`
	Answer     palyra.Answer     `json:"answer"`
	Scope      palyra.Scope      `json:"scope,omitempty"`
	By         palyra.Principal  `json:"by,omitempty"`
	Reason     string            `json:"reason,omitempty"`
}

// RunRequest is a run to start.
type RunRequest struct {
	Provider  string         // what takes the turns: scripted, or a model as provider/model; empty: the default one
	Input     string         // what drives the run, such as a script; ≤ 1 MiB
	Title     string         // for people
	Workspace string         // directory to work in; the daemon resolves it
	Session   string         // a session's id, or a name of the client's own; empty: the default one
	Key       string         // idempotency key, unique for the principal: a repeat returns the first run
	Budget    palyra.Budget  // may only lower the configured one
	NoWait    bool           // refuse a call at once where policy asks
	Surface   palyra.Surface // cli, api, mcp or hook; empty: api
}

// DecideRequest is an operator's answer to an approval.
type DecideRequest struct {
	ID     palyra.ApprovalID
	Answer palyra.Answer // allow or deny
	Scope  palyra.Scope  // of an allow; empty: once
	TTL    time.Duration // of a timeboxed allow
	Widen  string        // one of the options the prompt offers; empty: exact
	Uses   int64         // uses of the lease; 0: as the scope says
	Reason string
	Digest palyra.Digest // the plan digest the approver saw; must be the approval's
	Method palyra.Method // surface: cli, tui, console, api; empty: cli
}

// WhyRequest asks why policy answers as it does: about a call on record, or
// about one that is only imagined. Nothing runs and nothing is recorded.
type WhyRequest struct {
	ID        palyra.ID        // of a call on record, or of its approval or attestation
	Principal palyra.Principal // of an imagined call; empty: agent:local
	Tool      palyra.ToolName
	Arguments json.RawMessage
	Workspace string
	Surface   palyra.Surface
}

// TailRequest selects journal entries to follow.
type TailRequest struct {
	From   int64         // first sequence number; 0: from the end when following, else from the start
	Kind   string        // only this kind
	Call   palyra.CallID // only this call
	Limit  int64         // at most this many; 0: no limit
	Follow bool          // go on as entries arrive
}

// AttestationRef names an attestation by exactly one of its names.
type AttestationRef struct {
	ID     palyra.ID
	Call   palyra.CallID
	Digest palyra.Digest
}

// The places of private keys. Both: a move was cut off, file and vault have the same, and the file counts.
const (
	PlaceFile       = wire.PlaceFile
	PlaceVault      = wire.PlaceVault
	PlaceBoth       = wire.PlaceBoth
	PlaceCredential = wire.PlaceCredential
)
