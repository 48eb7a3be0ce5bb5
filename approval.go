package palyra

import (
	"slices"
	"time"
)

// SubjectType is what an approval is about.
type SubjectType string

// The subject types.
const (
	SubjectTool    SubjectType = "tool"
	SubjectChannel SubjectType = "channel_send"
	SubjectSecret  SubjectType = "secret_access"
	SubjectBrowser SubjectType = "browser_action"
	SubjectNode    SubjectType = "node_capability"
	SubjectPairing SubjectType = "device_pairing"
	SubjectCron    SubjectType = "cron"
	SubjectPolicy  SubjectType = "policy"
	SubjectSkill   SubjectType = "skill"
	SubjectEffects SubjectType = "effects" // what a run changed
)

// Answer is how an approval ended. The empty Answer is pending.
type Answer string

// The answers.
const (
	AnswerPending Answer = ""
	AnswerAllow   Answer = "allow"
	AnswerDeny    Answer = "deny"
	AnswerTimeout Answer = "timeout"
	AnswerError   Answer = "error" // the waiter or the store failed, the caller withdrew, or a lease overtook it
)

// Scope is how far an allow reaches.
type Scope string

// The scopes.
const (
	ScopeOnce      Scope = "once"
	ScopeSession   Scope = "session"
	ScopeTimeboxed Scope = "timeboxed"
)

// Separation is how far the approver's key is out of the agent's reach.
type Separation string

// The separation levels, weakest first.
const (
	SeparationNone       Separation = "none"
	SeparationPassphrase Separation = "passphrase"
	SeparationDevice     Separation = "device"
	SeparationOtherUID   Separation = "other_uid"
)

// Rank orders separation levels; an unknown one ranks with none.
func (s Separation) Rank() int {
	switch s {
	case SeparationPassphrase:
		return 1
	case SeparationDevice:
		return 2
	case SeparationOtherUID:
		return 3
	}
	return 0
}

// Method is the surface a decision was made on.
type Method string

// The methods.
const (
	MethodCLI     Method = "cli"
	MethodTUI     Method = "tui"
	MethodConsole Method = "console"
	MethodAPI     Method = "api"
	MethodClock   Method = "clock"  // the deadline passed
	MethodSystem  Method = "system" // withdrawn, or the waiter failed
)

// Approval is a question to people about one plan, and what became of it.
type Approval struct {
	ID          ApprovalID  `json:"approval_id"`
	Session     SessionID   `json:"session_id"`
	Run         RunID       `json:"run_id,omitempty"`
	Call        CallID      `json:"call_id"`
	Principal   Principal   `json:"principal"`
	Owner       Principal   `json:"owner,omitempty"`
	PeerUID     int64       `json:"peer_uid"`
	Surface     Surface     `json:"door"`
	Room        CallID      `json:"-"` // the running call at whose own door the call was proposed
	Payer       string      `json:"-"` // in whose share of open questions it is counted
	Within      []string    `json:"-"` // the only workspaces that the credential of the call reaches; empty: all
	RequestedAt time.Time   `json:"requested_at"`
	ExpiresAt   time.Time   `json:"expires_at"`
	SubjectType SubjectType `json:"subject_type"`
	SubjectID   string      `json:"subject_id"` // <type>:<resource>#<plan digest>
	PlanDigest  Digest      `json:"plan_digest"`
	Plan        Plan        `json:"plan"`
	Prompt      Prompt      `json:"prompt"`
	Need        Need        `json:"need"`
	Bundle      Digest      `json:"bundle_digest"`
	Snapshot    Digest      `json:"snapshot_digest"`
	Policies    []string    `json:"policies,omitempty"`
	Waiting     int64       `json:"waiting"` // calls that wait for this answer
	Votes       []Vote      `json:"votes,omitempty"`
	Decision    Decision    `json:"decision,omitzero"`
	LeftOut     *LeftOut    `json:"left_out,omitempty"` // nil: the plan and the prompt are whole
}

// LeftOut is what is no longer kept of a question that nobody allowed.
type LeftOut struct {
	Arguments      Digest `json:"arguments_digest"`
	ArgumentsBytes int64  `json:"arguments_bytes"`
	DiffBytes      int64  `json:"diff_bytes,omitempty"`
}

// Pending reports whether nobody has settled a.
func (a Approval) Pending() bool { return a.Decision.Answer == AnswerPending }

// Prompt is the question in words, made from the plan.
type Prompt struct {
	Title       string     `json:"title"`
	Summary     string     `json:"summary"`
	Risk        Risk       `json:"risk"`
	Diff        string     `json:"diff,omitempty"`
	Notes       []string   `json:"notes,omitempty"`
	Explanation string     `json:"explanation"` // why policy asks
	Remedy      string     `json:"remedy,omitempty"`
	Covers      string     `json:"covers"`            // what a wider scope would also cover
	Options     []Widening `json:"options,omitempty"` // generalisations offered
}

// Widening is a generalisation of a lease that the approver may pick.
type Widening struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Saves int64  `json:"saves,omitempty"` // of the caller's last questions: those that it would have saved
}

// The names of the generalisations. All but the first let an answer to one plan cover others, and are signed by name.
const (
	WidenExact     = "exact"
	WidenPathRoot  = "path_root" // edits of files under the directory of the ones that were asked about
	WidenWorkspace = "workspace" // edits of files anywhere in the workspace
	WidenReadRoot  = "read_root" // reads of files under the directory of the one that was asked about, outside of the workspace
	WidenHost      = "host"      // fetches of pages of the hosts that were asked about
	WidenBranch    = "branch"    // signatures of commits on the branch of the one that was asked about
	WidenRemote    = "remote"    // connections of git to the repository of the one that was asked about
	WidenPush      = "push"      // pushes to the branch, of the repository, of the one that was asked about, that lose nothing
	WidenGroup     = "group"     // hosts of a group, from the workspace; followed by :NAME:DIGEST of the group
)

// For reports whether terms are for a tool.
func (t Terms) For(tool ToolName) bool {
	return tool != "" && (tool == t.Tool || t.PlanDigest == "" && slices.Contains(t.Tools, tool))
}

// Vote is one answer of one person, as signed.
type Vote struct {
	ID         ID         `json:"vote_id"`
	Approval   ApprovalID `json:"approval_id"`
	Answer     Answer     `json:"answer"`
	Scope      Scope      `json:"scope,omitempty"`
	TTLMS      int64      `json:"ttl_ms,omitempty"`
	Widen      string     `json:"widen,omitempty"`
	Uses       int64      `json:"uses,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	By         Principal  `json:"by"`
	Method     Method     `json:"method"`
	PeerUID    int64      `json:"peer_uid"`
	At         time.Time  `json:"at"`
	Digest     Digest     `json:"plan_digest"` // echoed by the approver
	Separation Separation `json:"separation"`
	Device     bool       `json:"device,omitempty"`
	Signature  Signature  `json:"signature"`
}

// Decision is how an approval was settled: the answer, the votes behind it and what they permit.
type Decision struct {
	Approval   ApprovalID `json:"approval_id,omitempty"`
	Answer     Answer     `json:"answer,omitempty"`
	Scope      Scope      `json:"scope,omitempty"`
	Lease      LeaseID    `json:"grant_id,omitempty"` // the lease that an allow made, that covered the plan, or that overtook the question
	Reused     bool       `json:"reused,omitempty"`   // an earlier lease covered the plan; nobody was asked
	Reason     string     `json:"reason,omitempty"`
	By         Principal  `json:"by,omitempty"`
	Method     Method     `json:"method,omitempty"`
	At         time.Time  `json:"at,omitzero"`
	Digest     Digest     `json:"plan_digest,omitempty"` // what the approver saw
	Separation Separation `json:"separation,omitempty"`
	Votes      []Vote     `json:"votes,omitempty"`
	Terms      *Terms     `json:"terms,omitempty"` // of the lease; nil when there is none
}

// Overtaken reports whether the question was closed because the answer to another one left a lease that covers its
// plan. It is no answer: that lease permits the call, or nothing does.
func (d Decision) Overtaken() bool { return d.Answer == AnswerError && d.Lease != "" }

// Lease is a durable grant: what a decision of scope once, session or timeboxed permits, with explicit terms.
type Lease struct {
	ID        LeaseID    `json:"grant_id"`
	Approval  ApprovalID `json:"approval_id"`
	Scope     Scope      `json:"scope"`
	Terms     Terms      `json:"terms"`
	By        Principal  `json:"granted_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at,omitzero"`
	UsesLeft  int64      `json:"uses_left"` // -1: no count
	RevokedAt time.Time  `json:"revoked_at,omitzero"`
	RevokedBy Principal  `json:"revoked_by,omitempty"`
	Ended     LeaseEnd   `json:"ended,omitempty"` // empty: it is live
	Decision  Decision   `json:"decision,omitzero"`
}

// LeaseEnd is why a lease is no more.
type LeaseEnd string

// The ends of a lease.
const (
	LeaseRevoked       LeaseEnd = "revoked"
	LeaseExpired       LeaseEnd = "expired"
	LeaseSpent         LeaseEnd = "spent"
	LeaseSessionClosed LeaseEnd = "session_closed"
)

// Terms say which plans a lease covers. Every set field must match.
type Terms struct {
	Principal  Principal  `json:"principal"`
	Session    SessionID  `json:"session_id,omitempty"`
	Tool       ToolName   `json:"tool"`
	PlanDigest Digest     `json:"plan_digest,omitempty"` // exact plan
	Workspace  string     `json:"workspace,omitempty"`
	Program    string     `json:"program,omitempty"`
	PathRoot   string     `json:"path_root,omitempty"` // writes stay under this workspace-relative directory; ".": anywhere in it
	TierFloor  Tier       `json:"tier_floor,omitempty"`
	Hosts      []string   `json:"hosts,omitempty"`
	Room       CallID     `json:"room,omitempty"`      // the running call whose agent it was given to; empty: given to none in a room
	Tools      []ToolName `json:"tools,omitempty"`     // where no one plan is named: every tool that it covers, Tool among them; empty: Tool
	ReadRoot   string     `json:"read_root,omitempty"` // reads stay under this absolute directory, outside of the workspace

	// Of a group of hosts: its name, the digest of its contents when people answered, which are Hosts, and the bounds of the
	// credential that asked, where the terms name no session.
	Group       string   `json:"group,omitempty"`
	GroupDigest Digest   `json:"group_digest,omitempty"`
	Within      []string `json:"within,omitempty"`

	Pages bool `json:"pages,omitempty"` // fetches of pages of Hosts, which send nothing but an address

	// Of signatures of commits that go on a branch of the workspace: the binding and the fingerprint of the key, "NAME/KEY".
	Branch string `json:"branch,omitempty"`
	Signer string `json:"signer,omitempty"`

	// Of git at a server, by the key of Signer: the repository, USER@HOST:PORT:PATH, and the fingerprint of the server's key,
	// or those that it may have. With a Branch pushes to that, which lose nothing; without, connections.
	Remote  string `json:"remote,omitempty"`
	HostKey string `json:"host_key,omitempty"`
}

// Digest returns the digest of what the approver is shown.
func (p Prompt) Digest() (Digest, error) { return digestOf("prompt/v1", p) }
