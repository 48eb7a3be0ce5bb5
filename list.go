package palyra

import "time"

// What lists take, and what parts give for it. The zero filter selects everything that its reach may see.

// CallFilter selects calls, newest first.
type CallFilter struct {
	Principal Principal `json:"principal,omitempty"`
	Session   SessionID `json:"session_id,omitempty"` // or the name that callers gave it
	State     State     `json:"state,omitempty"`
	Cursor    string    `json:"cursor,omitempty"` // of the page before; empty: the first
	Limit     int64     `json:"limit,omitempty"`  // ≤ 500; 0: the daemon's default

	Run   RunID `json:"-"` // only those of this run
	Reach Reach `json:"-"` // who asks; it comes from the credential
}

// RunFilter selects runs, newest first.
type RunFilter struct {
	Principal Principal `json:"principal,omitempty"`
	Session   SessionID `json:"session_id,omitempty"`
	State     RunState  `json:"state,omitempty"`
	Cursor    string    `json:"cursor,omitempty"` // of the page before; empty: the first
	Limit     int64     `json:"limit,omitempty"`  // ≤ 500; 0: the daemon's default

	Reach Reach `json:"-"` // who asks; it comes from the credential
}

// SessionFilter selects sessions, newest first. The zero filter selects the open ones.
type SessionFilter struct {
	Principal Principal `json:"principal,omitempty"`
	Closed    bool      `json:"closed,omitempty"` // also those that are closed
	Cursor    string    `json:"cursor,omitempty"`
	Limit     int64     `json:"limit,omitempty"`
}

// ApprovalFilter selects approvals, newest first.
type ApprovalFilter struct {
	SubjectType SubjectType `json:"subject_type,omitempty"`
	SubjectID   string      `json:"subject_id,omitempty"`
	Principal   Principal   `json:"principal,omitempty"`
	Answer      Answer      `json:"answer,omitempty"`  // only those settled this way
	Pending     bool        `json:"pending,omitempty"` // only those that nobody has settled
	Since       time.Time   `json:"since,omitzero"`    // requested at or after
	Until       time.Time   `json:"until,omitzero"`    // requested before
	OldestFirst bool        `json:"oldest_first,omitempty"`
	Cursor      string      `json:"cursor,omitempty"` // of the page before, with the same filter; empty: the first
	Limit       int64       `json:"limit,omitempty"`  // ≤ 500; 0: the daemon's default

	Session SessionID `json:"-"` // only those of this session
}

// ApprovalPage is one page of approvals.
type ApprovalPage struct {
	Approvals []Approval `json:"approvals"`
	Next      string     `json:"next_cursor"`
}

// LeaseFilter selects leases, newest first; of those that ended none.
type LeaseFilter struct {
	Principal Principal `json:"principal,omitempty"`
	Session   SessionID `json:"session_id,omitempty"`
	Ended     bool      `json:"ended,omitempty"`  // also those that ended
	Cursor    string    `json:"cursor,omitempty"` // of the page before, with the same filter; empty: the first
	Limit     int64     `json:"limit,omitempty"`  // ≤ 500; 0: the daemon's default
}

// LeasePage is one page of leases.
type LeasePage struct {
	Leases []Lease `json:"grants"`
	Next   string  `json:"next_cursor"`
}

// EntryFilter selects entries of the journal, oldest first.
type EntryFilter struct {
	From, To int64 // sequence numbers, both counted in; 0: no bound
	Kind     string
	Call     CallID
	Limit    int // 0: 100; at most 1000
}
