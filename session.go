package palyra

import "time"

// Session is a conversation of a principal, in one workspace on one surface. A closed session's id is never used again.
type Session struct {
	ID        SessionID `json:"session_id"`
	Principal Principal `json:"principal"`
	Workspace string    `json:"workspace"`
	Surface   Surface   `json:"door"`
	Name      string    `json:"name,omitempty"` // given by the client, else the default session
	Labels    []string  `json:"labels,omitempty"`
	OpenedAt  time.Time `json:"opened_at"`
	UsedAt    time.Time `json:"used_at"`
	ClosedAt  time.Time `json:"closed_at,omitzero"`
	Calls     int64     `json:"calls"`
	Room      CallID    `json:"room,omitempty"`   // the running call at whose own door it was opened; only there it can be joined
	Within    []string  `json:"within,omitempty"` // the bounds of the credentials that share it
}

// Workspace is a directory an operator registered for agents to work in.
type Workspace struct {
	Path    string    `json:"path"` // absolute, resolved
	Name    string    `json:"name,omitempty"`
	Owner   int64     `json:"owner"`
	AddedBy Principal `json:"added_by"`
	AddedAt time.Time `json:"added_at"`

	Repository Repository `json:"repository,omitzero"` // outside, that it is a work tree of
}

// Agent is a named caller of the agent door and its owner.
type Agent struct {
	Principal Principal `json:"principal"`
	Owner     Principal `json:"owner"`
	AddedAt   time.Time `json:"added_at"`
	RemovedAt time.Time `json:"removed_at,omitzero"`
}

// Role is a named set of permissions.
type Role string

// The roles.
const (
	RoleOwner    Role = "owner"
	RoleAdmin    Role = "admin"
	RoleOperator Role = "operator"
	RoleApprover Role = "approver"
	RoleAuditor  Role = "auditor"
	RoleViewer   Role = "viewer"
	RoleAgent    Role = "agent"
	RoleNode     Role = "node"
)

// PeopleRoles are the roles of people, from the least on. An auditor and an approver hold what the other does not;
// every other one holds all that those before it do, but for what only an auditor has.
func PeopleRoles() []Role {
	return []Role{RoleViewer, RoleAuditor, RoleApprover, RoleOperator, RoleAdmin, RoleOwner}
}

// Operator is a person's signing key as the daemon knows it.
type Operator struct {
	Principal  Principal  `json:"principal"`
	Role       Role       `json:"role"`
	KeyID      string     `json:"key_id"`
	PublicKey  string     `json:"public_key"` // base64 Ed25519
	Separation Separation `json:"approver_separation"`
	Device     string     `json:"device_id,omitempty"` // the key is this device's; only its own connection may use it
	Passkey    *Passkey   `json:"-"`                   // the device is one: it signs by assertions
	AddedAt    time.Time  `json:"added_at"`
	RemovedAt  time.Time  `json:"removed_at,omitzero"`
}

// Key is a signing key of the daemon, public half.
type Key struct {
	ID        string    `json:"key_id"`
	Use       KeyUse    `json:"use"`
	PublicKey string    `json:"public_key"`
	Verifier  string    `json:"verifier"` // signed-note verifier line
	CreatedAt time.Time `json:"created_at"`
	RetiredAt time.Time `json:"retired_at,omitzero"`
}

// KeyUse is what a signing key of the daemon signs.
type KeyUse string

// The uses.
const (
	KeyJournal     KeyUse = "journal"
	KeyAttestation KeyUse = "attestation"
	KeyCA          KeyUse = "ca"   // certificates of paired devices
	KeyPush        KeyUse = "push" // requests to push services
)

// Snapshot is the security configuration in force for a call. It is stored once per digest.
type Snapshot struct {
	AllowedTools   []string       `json:"allowed_tools"`
	MaxCallsPerRun int64          `json:"max_calls_per_run"`
	TimeoutMS      int64          `json:"execution_timeout_ms"`
	OutputBytes    int64          `json:"output_bytes"`
	RunTimeoutMS   int64          `json:"run_timeout_ms"`
	RunOutputBytes int64          `json:"run_output_bytes"`
	ParallelCalls  int64          `json:"parallel_calls"`
	ApprovalWaitMS int64          `json:"approval_wait_ms"`
	MaxPending     int64          `json:"max_pending_per_principal"`
	DenyHoldMS     int64          `json:"deny_hold_ms"`
	Principals     []string       `json:"tool_execute_principals"`
	Channels       []string       `json:"tool_execute_channels"`
	ProcessRunner  map[string]any `json:"process_runner"`
	WasmRuntime    map[string]any `json:"wasm_runtime"`
	Bundle         Digest         `json:"bundle_digest"`
}

// Digest returns the snapshot's digest.
func (s Snapshot) Digest() (Digest, error) { return digestOf("snapshot/v1", s) }
