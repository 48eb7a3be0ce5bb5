package wire

import (
	"encoding/json"
	"time"

	"palyra"
)

// The shapes below cross the wire and are not words of the root: the daemon's status, pages, and the
// summaries of evidence. Their json tags are the field names of the messages they travel in.

// Status is what a daemon says of itself.
type Status struct {
	Version        string            `json:"version"`
	StateID        string            `json:"state_id"` // the audience of every signature
	Instance       palyra.ID         `json:"instance"`
	PID            int64             `json:"pid"`
	UID            int64             `json:"uid"`
	StartedAt      time.Time         `json:"started_at"`
	Home           string            `json:"home"`
	KeysDir        string            `json:"keys_dir"`
	AgentSocket    string            `json:"agent_socket"`
	OperatorSocket string            `json:"operator_socket"`
	JournalSize    int64             `json:"journal_size"`
	JournalOK      bool              `json:"journal_ok"`
	JournalKey     string            `json:"journal_key"` // note verifier line
	Bundle         palyra.Digest     `json:"bundle_digest"`
	Snapshot       palyra.Digest     `json:"snapshot_digest"`
	Preset         string            `json:"preset"`
	Separation     palyra.Separation `json:"approver_separation"`
	Pending        int64             `json:"pending_approvals"`
	Running        int64             `json:"running_calls"`
	Problems       []string          `json:"problems,omitempty"`
	Features       map[string]string `json:"features,omitempty"`
	Console        string            `json:"console_address,omitempty"` // where the console is served
	Remote         string            `json:"remote_address,omitempty"`  // where paired devices come in
	Limited        map[string]int64  `json:"limited,omitempty"`         // requests turned away since the start
}

// Me is who a caller is to the daemon.
type Me struct {
	Principal    palyra.Principal    `json:"principal"`
	Owner        palyra.Principal    `json:"owner,omitempty"`
	Role         palyra.Role         `json:"role"`
	Credential   string              `json:"credential"` // agent_socket, operator_socket, token, device, console
	CredentialID string              `json:"credential_id,omitempty"`
	Permissions  []palyra.Permission `json:"permissions"`
	Workspaces   []string            `json:"workspaces,omitempty"`
}

// RoleInfo is a role with what it may do.
type RoleInfo struct {
	Role        palyra.Role         `json:"role"`
	Permissions []palyra.Permission `json:"permissions"`
}

// Head is the journal's signed checkpoint.
type Head struct {
	Size   int64         `json:"size"`
	Root   palyra.Digest `json:"root"`
	Chain  palyra.Digest `json:"chain"`
	Origin string        `json:"origin"`
	Note   string        `json:"note"` // the signed note itself
}

// Report is the end of a verification.
type Report struct {
	OK       bool          `json:"ok"`
	Entries  int64         `json:"entries"`
	Root     palyra.Digest `json:"root"`
	KeyIDs   []string      `json:"key_ids,omitempty"`
	Problems []string      `json:"problems,omitempty"`
	Notes    []string      `json:"notes,omitempty"` // what could only be held in part
}

// Policy is the bundle in force.
type Policy struct {
	Bundle   palyra.Digest `json:"bundle_digest"`
	Snapshot palyra.Digest `json:"snapshot_digest"`
	Preset   string        `json:"preset"`
	Files    []PolicyFile  `json:"files,omitempty"`
}

// PolicyFile is one file of a bundle.
type PolicyFile struct {
	Name   string        `json:"name"`
	Digest palyra.Digest `json:"digest"`
	Text   string        `json:"text"`
}

// Explanation says why policy answers a call the way it does.
type Explanation struct {
	Call       palyra.CallID   `json:"call_id,omitempty"` // empty: the call is hypothetical
	Plan       palyra.Plan     `json:"plan"`
	PlanDigest palyra.Digest   `json:"plan_digest"`
	Verdict    palyra.Verdict  `json:"verdict"`
	Lines      []string        `json:"lines,omitempty"`  // the same in sentences
	Detail     json.RawMessage `json:"detail,omitempty"` // everything the answer was made of, as the engine shows it

	Layer       palyra.Layer      `json:"layer,omitempty"` // what refused or asked; empty: nothing did
	ReasonCode  palyra.Reason     `json:"reason_code,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Remedy      string            `json:"remedy,omitempty"`
	Flips       []Flip            `json:"flips,omitempty"` // the smallest changes that flip the answer
	Approval    palyra.ApprovalID `json:"approval_id,omitempty"`
	Attestation palyra.ID         `json:"attestation_id,omitempty"`
}

// CallPage is one page of calls.
type CallPage struct {
	Calls []palyra.Call `json:"calls"`
	Next  string        `json:"next_cursor"`
}

// RunPage is one page of runs.
type RunPage struct {
	Runs []palyra.Run `json:"runs"`
	Next string       `json:"next_cursor"`
}

// SessionPage is one page of sessions.
type SessionPage struct {
	Sessions []palyra.Session `json:"sessions"`
	Next     string           `json:"next_cursor"`
}

// PolicyProblem is one thing wrong with a bundle.
type PolicyProblem struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Column int64  `json:"column"`
	Text   string `json:"text"`
}

// PolicyTest is how one test of a bundle ended.
type PolicyTest struct {
	File string `json:"file"`
	Name string `json:"name"`
	Line int64  `json:"line"`
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"`
}

// PolicyCheck is what is to be said of a bundle before it is in force.
type PolicyCheck struct {
	Bundle   palyra.Digest   `json:"bundle_digest,omitempty"`
	Policies int64           `json:"policies"`
	Problems []PolicyProblem `json:"problems,omitempty"`
	Tests    []PolicyTest    `json:"tests,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// Activation is a bundle and the configuration that it came into force with.
type Activation struct {
	Number   int64            `json:"number"`
	Bundle   palyra.Digest    `json:"bundle_digest"`
	Snapshot palyra.Digest    `json:"snapshot_digest"`
	By       palyra.Principal `json:"by"`
	At       time.Time        `json:"at"`
	InForce  bool             `json:"in_force,omitempty"`
}

// Words turns a list of texts into one of words, or back. No list stays none.
func Words[To, From ~string](list []From) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i, w := range list {
		out[i] = To(w)
	}
	return out
}

// KeyPlace is where the private half of the key of a use lies.
type KeyPlace struct {
	Use    palyra.KeyUse `json:"use"`
	Place  string        `json:"place"`
	Locked string        `json:"locked,omitempty"` // why it cannot be used now
	Remedy string        `json:"remedy,omitempty"`
}

// The places of private keys. Both: a move was cut off, file and vault have the same, and the file counts.
const (
	PlaceFile       = "file"
	PlaceVault      = "vault"
	PlaceBoth       = "both"
	PlaceCredential = "credential"
)

// Notices is how browsers that are closed are told that a question waits.
type Notices struct {
	Off           string               `json:"off,omitempty"` // why they are not, and what to do
	PublicKey     []byte               `json:"public_key,omitempty"`
	Subscriptions []NoticeSubscription `json:"subscriptions,omitempty"`
}

// NoticeSubscription is a browser that is told; the counts are since the daemon started.
type NoticeSubscription struct {
	Device  string    `json:"device_id"`
	Service string    `json:"service"` // the host of its push service
	Since   time.Time `json:"since"`
	Sent    int64     `json:"sent"`
	Failed  int64     `json:"failed"`
	Problem string    `json:"problem,omitempty"` // of the last time
}
