package palyra

import (
	"encoding/json"
	"slices"
	"time"
)

// RunState is how far a run has come.
type RunState string

// The states of a run.
const (
	RunPending    RunState = "pending"     // on record, not yet looked at
	RunIsAccepted RunState = "accepted"    // its input is understood
	RunInProgress RunState = "in_progress" // turns are being taken
	RunDone       RunState = "done"
	RunFailed     RunState = "failed"
	RunCancelled  RunState = "cancelled"
)

// runMoves is the table of a run's states. A run can end from every state that is not an end.
var runMoves = map[RunState][]RunState{
	RunPending:    {RunIsAccepted, RunFailed, RunCancelled},
	RunIsAccepted: {RunInProgress, RunFailed, RunCancelled},
	RunInProgress: {RunDone, RunFailed, RunCancelled},
}

// RunStates lists every state of a run once.
func RunStates() []RunState {
	return []RunState{RunPending, RunIsAccepted, RunInProgress, RunDone, RunFailed, RunCancelled}
}

// MayBecome reports whether a run in state s may become to.
func (s RunState) MayBecome(to RunState) bool { return slices.Contains(runMoves[s], to) }

// Ended reports whether nothing follows s.
func (s RunState) Ended() bool { return s == RunDone || s == RunFailed || s == RunCancelled }

// Budget bounds a run. Zero takes the configured value; a run may only lower it.
type Budget struct {
	Calls       int64 `json:"max_calls,omitempty"`
	WallMS      int64 `json:"wall_ms,omitempty"`
	OutputBytes int64 `json:"output_bytes,omitempty"`
	Parallel    int64 `json:"parallel,omitempty"` // read-only calls of one turn at once
}

// Run is a piece of work of an agent: turns of a model, or of a script in its place, and the tool calls they propose.
// The server owns it: it goes on when its client leaves, and can be followed again from any point of its tape.
type Run struct {
	ID         RunID     `json:"run_id"`
	Key        string    `json:"key,omitempty"` // client's idempotency key, unique for the principal
	Session    SessionID `json:"session_id"`
	Principal  Principal `json:"principal"`
	Owner      Principal `json:"owner,omitempty"`
	PeerUID    int64     `json:"peer_uid"`
	Surface    Surface   `json:"door"`
	Workspace  string    `json:"workspace,omitempty"`
	Provider   string    `json:"provider"` // scripted, or a provider of models by its name in the configuration
	Title      string    `json:"title,omitempty"`
	Input      Digest    `json:"input_digest"`
	NoWait     bool      `json:"no_wait,omitempty"` // an ask is refused at once
	State      RunState  `json:"state"`
	Budget     Budget    `json:"budget"`
	Calls      int64     `json:"calls"`        // proposed so far
	Output     int64     `json:"output_bytes"` // delivered so far
	ReasonCode Reason    `json:"reason_code,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Remedy     string    `json:"remedy,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	LastSeq    int64     `json:"last_seq"`         // of its tape
	Within     []string  `json:"within,omitempty"` // the only workspaces its credential reaches
	Credential string    `json:"credential,omitempty"`
	Model      string    `json:"model,omitempty"` // that takes the turns
	Tokens
}

// Tokens is what a model was made to read and write, in tokens, as its provider counted them.
type Tokens struct {
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
}

// TapeEntry is one thing that happened in a run. Seq counts from 1 without gaps; JournalPosition is set for what
// stands in the journal. Exactly one of the pointers is set.
type TapeEntry struct {
	Run      RunID     `json:"run_id"`
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Position int64     `json:"journal_position,omitempty"`

	RunAccepted       *TapeAccepted    `json:"run_accepted,omitempty"`
	ModelText         *TapeText        `json:"model_text,omitempty"`
	ToolProposed      *TapeProposed    `json:"tool_proposed,omitempty"`
	ToolJudged        *TapeJudged      `json:"tool_judged,omitempty"`
	ApprovalRequested *TapeRequested   `json:"approval_requested,omitempty"`
	ApprovalResolved  *TapeResolved    `json:"approval_resolved,omitempty"`
	ToolGranted       *TapeGranted     `json:"tool_granted,omitempty"`
	ToolOutput        *TapeOutput      `json:"tool_output,omitempty"`
	ToolAttested      *TapeAttested    `json:"tool_attested,omitempty"`
	ToolFinished      *TapeFinished    `json:"tool_finished,omitempty"`
	RunFinished       *TapeRunFinished `json:"run_finished,omitempty"`
}

// TapeAccepted opens a tape.
type TapeAccepted struct {
	Session  SessionID `json:"session_id"`
	Provider string    `json:"provider"`
	Title    string    `json:"title,omitempty"`
	Budget   Budget    `json:"budget"`
}

// TapeText is what the model said in a turn. The last piece of a turn has Done.
type TapeText struct {
	Turn int64  `json:"turn"`
	Text string `json:"text"`
	Done bool   `json:"done,omitempty"`
	// Again says that what was said of the turn before was cut off: the turn begins anew with this piece.
	Again bool `json:"again,omitempty"`
}

// TapeProposed says that a call is on record.
type TapeProposed struct {
	Call      CallID          `json:"call_id"`
	Turn      int64           `json:"turn"`
	Tool      ToolName        `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // left out when large
}

// TapeJudged is policy's answer to a call.
type TapeJudged struct {
	Call     CallID    `json:"call_id"`
	Plan     Digest    `json:"plan_digest"`
	Effect   Effect    `json:"effect"`
	Risk     RiskLevel `json:"risk,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Policies []string  `json:"policies,omitempty"`
	Again    bool      `json:"again,omitempty"`
}

// TapeRequested says that a call waits for an answer.
type TapeRequested struct {
	Call      CallID     `json:"call_id"`
	Approval  ApprovalID `json:"approval_id"`
	Plan      Digest     `json:"plan_digest"`
	Summary   string     `json:"summary,omitempty"`
	ExpiresAt time.Time  `json:"expires_at,omitzero"`
	Joined    bool       `json:"joined,omitempty"`
}

// TapeResolved says how the question was settled.
type TapeResolved struct {
	Call     CallID     `json:"call_id"`
	Approval ApprovalID `json:"approval_id"`
	Answer   Answer     `json:"answer"`
	Scope    Scope      `json:"scope,omitempty"`
	By       Principal  `json:"by,omitempty"`
	Reason   string     `json:"reason,omitempty"`
}

// TapeGranted says that a call may run now.
type TapeGranted struct {
	Call  CallID  `json:"call_id"`
	Grant GrantID `json:"grant_id"`
	Tier  Tier    `json:"tier"`
}

// TapeOutput is a piece of what a running call printed.
type TapeOutput struct {
	Call   CallID `json:"call_id"`
	Stream string `json:"stream"`
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"`
}

// TapeAttested says that what ran was signed.
type TapeAttested struct {
	Call        CallID `json:"call_id"`
	Attestation ID     `json:"attestation_id"`
	Digest      Digest `json:"attestation_digest"`

	Egress []EgressFlow `json:"egress,omitempty"` // what it reached, and what it was refused
}

// TapeFinished is the end of a call, whatever it was. The outcome itself is kept with the call.
type TapeFinished struct {
	Call       CallID      `json:"call_id"`
	Outcome    OutcomeKind `json:"outcome"`
	Layer      Layer       `json:"layer,omitempty"`
	ReasonCode Reason      `json:"reason_code,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Remedy     string      `json:"remedy,omitempty"`
	ExitCode   int         `json:"exit_code"`
	Signal     string      `json:"signal,omitempty"`
	Truncated  bool        `json:"truncated,omitempty"`
}

// TapeRunFinished closes a tape.
type TapeRunFinished struct {
	State      RunState `json:"state"`
	ReasonCode Reason   `json:"reason_code,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Remedy     string   `json:"remedy,omitempty"`
	Calls      int64    `json:"calls"`
	Tokens
}
