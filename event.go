package palyra

import (
	"reflect"
	"time"
)

// Event is one typed journal line. Every kind stands in Catalogue; there is no
// free-form one. Fields tagged json:"-" travel with the event to the tables it
// changes and are not journaled.
type Event interface {
	// Kind is the event's stable name: "call.granted".
	Kind() string
}

// Entry is an event as the journal keeps it.
type Entry struct {
	Seq  int64          `json:"seq"`
	Time string         `json:"time"`
	Kind string         `json:"kind"`
	Call ID             `json:"call_id,omitempty"`
	Body map[string]any `json:"body"`
}

// Catalogue returns a zero value of every event, in the order of the docs.
func Catalogue() []Event {
	return []Event{
		DaemonStarted{},
		DaemonStopped{},
		KeyCreated{},
		KeyRotated{},
		PolicyActivated{},
		CallProposed{},
		CallJudged{},
		CallRefused{},
		CallGranted{},
		CallFinished{},
		CallCancelled{},
		CallUnknown{},
		CallChecked{},
		ApprovalRequested{},
		ApprovalJoined{},
		ApprovalVoted{},
		ApprovalDecided{},
		ApprovalWithdrawn{},
		GrantCreated{},
		GrantEnded{},
		RunStarted{},
		RunEnded{},
		SessionOpened{},
		SessionLabeled{},
		SessionClosed{},
		WorkspaceAdded{},
		WorkspaceRemoved{},
		AgentAdded{},
		AgentRemoved{},
		OperatorAdded{},
		OperatorRemoved{},
		AlertRaised{},
		DoorFlood{},
		ApprovalsExported{},
		JournalExported{},
		PostureChecked{},
		PairingOpened{},
		PairingFailed{},
		DevicePaired{},
		DeviceRenewed{},
		DeviceRevoked{},
		UserAdded{},
		UserChanged{},
		UserRemoved{},
		TokenAdded{},
		TokenRevoked{},
		ConsoleOpened{},
		UpstreamAdded{},
		UpstreamRemoved{},
		UpstreamApproved{},
		UpstreamQuarantined{},
	}
}

// EventOf returns a pointer to a zero event of the kind, or nil.
func EventOf(kind string) any {
	for _, e := range Catalogue() {
		if e.Kind() == kind {
			return reflect.New(reflect.TypeOf(e)).Interface()
		}
	}
	return nil
}

// DaemonStarted opens a daemon's life.
type DaemonStarted struct {
	Version  string `json:"version"`
	Instance ID     `json:"instance"`
	BootID   string `json:"boot_id"`
}

// DaemonStopped ends it in good order; a start without one follows a crash.
type DaemonStopped struct {
	Instance ID `json:"instance"`
}

// KeyCreated announces a signing key.
type KeyCreated struct {
	Key Key `json:"key"`
}

// KeyRotated chains a new signing key to the old one.
type KeyRotated struct {
	Use string    `json:"use"`
	Old string    `json:"old_key_id"`
	Key Key       `json:"key"`
	By  Principal `json:"by"`
	Sig string    `json:"sig"` // the old key's signature over the new public key
}

// PolicyActivated says which bundle and configuration judge from here on. The
// signature is there when a person chose the bundle. Its field files holds the
// digest of each text and not the text: those are kept under the bundle's digest.
type PolicyActivated struct {
	Bundle    Digest     `json:"bundle_digest"`
	Snapshot  Digest     `json:"snapshot_digest"`
	By        Principal  `json:"by"`
	Signature *Signature `json:"signature,omitempty"`
}

// CallProposed is the first line of a call. Arguments over the cap stand as
// size and digest only.
type CallProposed struct {
	Call       ID        `json:"call_id"`
	Session    ID        `json:"session_id"`
	Run        ID        `json:"run_id,omitempty"`
	Principal  Principal `json:"principal"`
	Door       Door      `json:"door"`
	Tool       string    `json:"tool"`
	Workspace  string    `json:"workspace,omitempty"`
	InputBytes int64     `json:"input_bytes"`
	Input      Digest    `json:"input_digest"`
	Key        string    `json:"key,omitempty"`
}

// CallJudged is policy's answer.
type CallJudged struct {
	Call     ID        `json:"call_id"`
	Plan     Digest    `json:"plan_digest"`
	Effect   Effect    `json:"effect"`
	Policies []string  `json:"policies,omitempty"`
	Pairs    []Pair    `json:"pairs,omitempty"`
	Errors   int       `json:"errors,omitempty"`
	Risk     RiskLevel `json:"risk,omitempty"`
	Bundle   Digest    `json:"bundle_digest"`
	Snapshot Digest    `json:"snapshot_digest"`
	Again    bool      `json:"again,omitempty"` // judged again after a wait
	Approval ID        `json:"approval_id,omitempty"`
	Labels   []string  `json:"labels,omitempty"` // of the session, with what was under way in it
	Roles    []Role    `json:"roles,omitempty"`  // of the principal, as the access registry knew them
	Owner    []Role    `json:"owner_roles,omitempty"`
	Device   string    `json:"device_id,omitempty"` // that the principal is, or speaks for
}

// CallRefused ends a call that did not run.
type CallRefused struct {
	Call   ID     `json:"call_id"`
	Layer  Layer  `json:"layer"`
	Code   Code   `json:"code"`
	Reason Reason `json:"reason_code"`
	Plan   Digest `json:"plan_digest,omitempty"`
}

// CallGranted is durable before anything runs. Lease names the lease it uses;
// recording it takes one use.
type CallGranted struct {
	Call     ID     `json:"call_id"`
	Grant    ID     `json:"grant_id"`
	Plan     Digest `json:"plan_digest"`
	Approval ID     `json:"approval_id,omitempty"`
	Lease    ID     `json:"lease_id,omitempty"`
	Tier     Tier   `json:"tier"`
}

// CallFinished carries the attestation's digest; without this line the output
// is withheld.
type CallFinished struct {
	Call        ID          `json:"call_id"`
	Outcome     OutcomeKind `json:"outcome"`
	ExitCode    int         `json:"exit_code"`
	Attestation Digest      `json:"attestation_digest"`
	AttestedAs  ID          `json:"attestation_id"`
	Body        Digest      `json:"outcome_sha256"`
	Labels      []string    `json:"labels,omitempty"` // what it did; its session has them from here on

	Signed Attestation `json:"-"`
}

// CallCancelled ends a call the caller gave up.
type CallCancelled struct {
	Call  ID     `json:"call_id"`
	State State  `json:"state"` // where it stood
	By    string `json:"by"`
}

// CallUnknown ends a call whose daemon died after the grant: it may or may not
// have run, and is never run again by itself.
type CallUnknown struct {
	Call   ID       `json:"call_id"`
	State  State    `json:"state"`
	Labels []string `json:"labels,omitempty"` // what it may have done
}

// ApprovalRequested opens a question.
type ApprovalRequested struct {
	Approval    ID          `json:"approval_id"`
	Call        ID          `json:"call_id"`
	Principal   Principal   `json:"principal"`
	SubjectType SubjectType `json:"subject_type"`
	SubjectID   string      `json:"subject_id"`
	Plan        Digest      `json:"plan_digest"`
	Prompt      Digest      `json:"prompt_digest"`
	Need        Need        `json:"need"`
	ExpiresAt   time.Time   `json:"expires_at"`

	Record Approval `json:"-"`
}

// ApprovalJoined adds a call to an open question about the same plan.
type ApprovalJoined struct {
	Approval ID `json:"approval_id"`
	Call     ID `json:"call_id"`
}

// ApprovalVoted is one person's signed answer that did not yet settle it.
type ApprovalVoted struct {
	Vote Vote `json:"vote"`
}

// ApprovalDecided settles a question, once.
type ApprovalDecided struct {
	Approval   ID         `json:"approval_id"`
	Call       ID         `json:"call_id"`
	Answer     Answer     `json:"answer"`
	Scope      Scope      `json:"scope,omitempty"`
	Plan       Digest     `json:"plan_digest"`
	By         Principal  `json:"by"`
	Method     Method     `json:"method"`
	Separation Separation `json:"separation,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Votes      []Vote     `json:"votes,omitempty"`
	Lease      ID         `json:"lease_id,omitempty"`
}

// ApprovalWithdrawn takes a caller off a question; the last one ends it.
type ApprovalWithdrawn struct {
	Approval ID `json:"approval_id"`
	Call     ID `json:"call_id"`
}

// GrantCreated records a lease and its terms.
type GrantCreated struct {
	Lease    ID        `json:"lease_id"`
	Approval ID        `json:"approval_id"`
	Scope    Scope     `json:"scope"`
	Terms    Terms     `json:"terms"`
	Expires  time.Time `json:"expires_at,omitzero"`
	Uses     int64     `json:"uses"`
}

// GrantEnded ends a lease: revoked, expired, spent, session_closed. A revocation
// carries the signature of the person who revoked it.
type GrantEnded struct {
	Lease     ID         `json:"lease_id"`
	Why       string     `json:"why"`
	By        Principal  `json:"by"`
	Signature *Signature `json:"signature,omitempty"`
}

// RunStarted opens a run. Input is the digest of what drives it.
type RunStarted struct {
	Run       ID        `json:"run_id"`
	Session   ID        `json:"session_id"`
	Principal Principal `json:"principal"`
	Door      Door      `json:"door"`
	Provider  string    `json:"provider"`
	Input     Digest    `json:"input_digest"`
	Budget    Budget    `json:"budget"`
}

// RunEnded ends a run.
type RunEnded struct {
	Run    ID       `json:"run_id"`
	State  RunState `json:"state"`
	Reason Reason   `json:"reason_code,omitempty"`
	Calls  int64    `json:"calls"`
	By     string   `json:"by,omitempty"`
}

// SessionOpened opens a session.
type SessionOpened struct {
	Session   ID        `json:"session_id"`
	Principal Principal `json:"principal"`
	Workspace string    `json:"workspace"`
	Door      Door      `json:"door"`
}

// SessionLabeled says what a session's calls have done that none did before. A call
// out of another session's run labels that session too.
type SessionLabeled struct {
	Session ID       `json:"session_id"`
	Call    ID       `json:"call_id"`
	Labels  []string `json:"labels"` // those that are new
}

// SessionClosed closes one: by whom, or "idle".
type SessionClosed struct {
	Session ID     `json:"session_id"`
	By      string `json:"by"`
}

// WorkspaceAdded registers a workspace.
type WorkspaceAdded struct {
	Workspace Workspace `json:"workspace"`
	Signature Signature `json:"signature"`
}

// WorkspaceRemoved forgets one.
type WorkspaceRemoved struct {
	Path      string    `json:"path"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// AgentAdded names an agent and its owner.
type AgentAdded struct {
	Agent     Agent     `json:"agent"`
	Signature Signature `json:"signature"`
}

// AgentRemoved ends an agent's credential.
type AgentRemoved struct {
	Principal Principal `json:"principal"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// OperatorAdded makes a signing key known. The first one of a state has no
// signature: it is made together with the state.
type OperatorAdded struct {
	Operator  Operator   `json:"operator"`
	Signature *Signature `json:"signature,omitempty"`
}

// OperatorRemoved ends a signing key.
type OperatorRemoved struct {
	KeyID     string    `json:"key_id"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// AlertRaised records what should not happen: a decision with an agent's
// credential, a replayed or altered signature, a stale digest, a sealed path that
// was changed while a run was under way.
type AlertRaised struct {
	Reason    Reason    `json:"reason_code"`
	Principal Principal `json:"principal"`
	PeerUID   int64     `json:"peer_uid"`
	Method    string    `json:"method"`
	Approval  ID        `json:"approval_id,omitempty"`
	KeyID     string    `json:"key_id,omitempty"`
	Call      ID        `json:"call_id,omitempty"`
	Path      string    `json:"path,omitempty"`  // that was changed; the first of them
	Count     int64     `json:"count,omitempty"` // coalesced repeats, or paths
}

// DoorFlood stands for many refusals at a door.
type DoorFlood struct {
	Door   string `json:"door"`
	Reason Reason `json:"reason_code"`
	Count  int64  `json:"count"`
}

// ApprovalsExported records that the approvals left the system.
type ApprovalsExported struct {
	By    Principal `json:"by"`
	Count int64     `json:"count"`
}

// JournalExported records that journal entries left the system.
type JournalExported struct {
	By   Principal `json:"by"`
	From int64     `json:"from"`
	To   int64     `json:"to"`
}

// PostureChecked records what the sandbox tiers held when a program inside them
// tried to get out. The posture itself is kept by its digest.
type PostureChecked struct {
	Posture Digest    `json:"posture_digest"`
	By      Principal `json:"by"`     // who asked for it
	Held    []Tier    `json:"held"`   // tiers in which everything held
	Failed  []string  `json:"failed"` // what did not: "C", a tier that cannot be used, or "C/memory", one of its probes
}

// Kind implements Event.
func (DaemonStarted) Kind() string { return "daemon.started" }

// Kind implements Event.
func (DaemonStopped) Kind() string { return "daemon.stopped" }

// Kind implements Event.
func (KeyCreated) Kind() string { return "key.created" }

// Kind implements Event.
func (KeyRotated) Kind() string { return "key.rotated" }

// Kind implements Event.
func (PolicyActivated) Kind() string { return "policy.activated" }

// Kind implements Event.
func (CallProposed) Kind() string { return "call.proposed" }

// Kind implements Event.
func (CallJudged) Kind() string { return "call.judged" }

// Kind implements Event.
func (CallRefused) Kind() string { return "call.refused" }

// Kind implements Event.
func (CallGranted) Kind() string { return "call.granted" }

// Kind implements Event.
func (CallFinished) Kind() string { return "call.finished" }

// Kind implements Event.
func (CallCancelled) Kind() string { return "call.cancelled" }

// Kind implements Event.
func (CallUnknown) Kind() string { return "call.unknown" }

// Kind implements Event.
func (ApprovalRequested) Kind() string { return "approval.requested" }

// Kind implements Event.
func (ApprovalJoined) Kind() string { return "approval.joined" }

// Kind implements Event.
func (ApprovalVoted) Kind() string { return "approval.voted" }

// Kind implements Event.
func (ApprovalDecided) Kind() string { return "approval.decided" }

// Kind implements Event.
func (ApprovalWithdrawn) Kind() string { return "approval.withdrawn" }

// Kind implements Event.
func (GrantCreated) Kind() string { return "grant.created" }

// Kind implements Event.
func (GrantEnded) Kind() string { return "grant.ended" }

// Kind implements Event.
func (RunStarted) Kind() string { return "run.started" }

// Kind implements Event.
func (RunEnded) Kind() string { return "run.ended" }

// Kind implements Event.
func (SessionOpened) Kind() string { return "session.opened" }

// Kind implements Event.
func (SessionLabeled) Kind() string { return "session.labeled" }

// Kind implements Event.
func (SessionClosed) Kind() string { return "session.closed" }

// Kind implements Event.
func (WorkspaceAdded) Kind() string { return "workspace.added" }

// Kind implements Event.
func (WorkspaceRemoved) Kind() string { return "workspace.removed" }

// Kind implements Event.
func (AgentAdded) Kind() string { return "agent.added" }

// Kind implements Event.
func (AgentRemoved) Kind() string { return "agent.removed" }

// Kind implements Event.
func (OperatorAdded) Kind() string { return "operator.added" }

// Kind implements Event.
func (OperatorRemoved) Kind() string { return "operator.removed" }

// Kind implements Event.
func (AlertRaised) Kind() string { return "alert.raised" }

// Kind implements Event.
func (DoorFlood) Kind() string { return "door.flood" }

// Kind implements Event.
func (ApprovalsExported) Kind() string { return "approvals.exported" }

// Kind implements Event.
func (JournalExported) Kind() string { return "journal.exported" }

// Kind implements Event.
func (PostureChecked) Kind() string { return "posture.checked" }
