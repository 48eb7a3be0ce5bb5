package palyra

import "time"

// ApprovalRequested opens a question.
type ApprovalRequested struct {
	Approval    ApprovalID  `json:"approval_id"`
	Call        CallID      `json:"call_id"`
	Principal   Principal   `json:"principal"`
	SubjectType SubjectType `json:"subject_type"`
	SubjectID   string      `json:"subject_id"`
	Plan        Digest      `json:"plan_digest"`
	Prompt      Digest      `json:"prompt_digest"`
	Shown       Digest      `json:"shown_plan_digest,omitempty"` // of the plan as it was shown, where values in it are masked
	Need        Need        `json:"need"`
	ExpiresAt   time.Time   `json:"expires_at"`

	Record Approval `json:"-"`
}

// ApprovalJoined adds a call to an open question about the same plan.
type ApprovalJoined struct {
	Approval ApprovalID `json:"approval_id"`
	Call     CallID     `json:"call_id"`
}

// ApprovalVoted is one person's signed answer that did not yet settle it.
type ApprovalVoted struct {
	Vote Vote `json:"vote"`
}

// ApprovalDecided settles a question, once.
type ApprovalDecided struct {
	Approval   ApprovalID `json:"approval_id"`
	Call       CallID     `json:"call_id"`
	Answer     Answer     `json:"answer"`
	Scope      Scope      `json:"scope,omitempty"`
	Plan       Digest     `json:"plan_digest"`
	By         Principal  `json:"by"`
	Method     Method     `json:"method"`
	Separation Separation `json:"separation,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Votes      []Vote     `json:"votes,omitempty"`
	Lease      LeaseID    `json:"lease_id,omitempty"`
	Kept       Digest     `json:"kept,omitempty"` // KeptWhole, or of what is left of the documents of a question that nobody allowed
}

// KeptWhole stands for the digest of documents from which nothing was left out.
const KeptWhole Digest = "whole"

// ApprovalWithdrawn takes a caller off a question; the last one ends it.
type ApprovalWithdrawn struct {
	Approval ApprovalID `json:"approval_id"`
	Call     CallID     `json:"call_id"`
}

// GrantCreated records a lease and its terms.
type GrantCreated struct {
	Lease    LeaseID    `json:"lease_id"`
	Approval ApprovalID `json:"approval_id"`
	Scope    Scope      `json:"scope"`
	Terms    Terms      `json:"terms"`
	Expires  time.Time  `json:"expires_at,omitzero"`
	Uses     int64      `json:"uses"`
}

// GrantEnded ends a lease. A revocation carries the signature of the person who revoked it.
type GrantEnded struct {
	Lease     LeaseID    `json:"lease_id"`
	Why       LeaseEnd   `json:"why"`
	By        Principal  `json:"by"`
	Signature *Signature `json:"signature,omitempty"`
}

// ApprovalsExported records that the approvals left the system.
type ApprovalsExported struct {
	By    Principal `json:"by"`
	Count int64     `json:"count"`
}

// Kind implements Event.
func (ApprovalRequested) Kind() string { return "approval.requested" }
func (ApprovalJoined) Kind() string    { return "approval.joined" }
func (ApprovalVoted) Kind() string     { return "approval.voted" }
func (ApprovalDecided) Kind() string   { return "approval.decided" }
func (ApprovalWithdrawn) Kind() string { return "approval.withdrawn" }
func (GrantCreated) Kind() string      { return "grant.created" }
func (GrantEnded) Kind() string        { return "grant.ended" }
func (ApprovalsExported) Kind() string { return "approvals.exported" }
