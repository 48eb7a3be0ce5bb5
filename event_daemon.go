package palyra

import "time"

// StateBegun is the first line of a state that somebody began on purpose beside what was left of earlier ones.
type StateBegun struct {
	State  string   `json:"state_id"`
	Beside []string `json:"beside"` // names of what was put aside of those
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
	// How it came about: signed, signal (which needs no signature: the daemon's own user and root can send one) or
	// failed. Older lines do not say.
	How string    `json:"how,omitempty"`
	By  Principal `json:"by,omitempty"` // who signed it
}

// KeyCreated announces a signing key.
type KeyCreated struct {
	Key Key `json:"key"`
}

// KeyRotated chains a new signing key to the old one.
type KeyRotated struct {
	Use KeyUse    `json:"use"`
	Old string    `json:"old_key_id"`
	Key Key       `json:"key"`
	By  Principal `json:"by"`
	Sig string    `json:"sig"` // the old key's signature over the new public key
}

// PolicyActivated says which bundle and configuration judge from here on. The signature is there when a person chose
// the bundle. Its field files holds the digest of each text and not the text: those are kept under the bundle's digest.
type PolicyActivated struct {
	Bundle    Digest     `json:"bundle_digest"`
	Snapshot  Digest     `json:"snapshot_digest"`
	By        Principal  `json:"by"`
	Signature *Signature `json:"signature,omitempty"`
}

// MaxObserved is the longest time for which calls are observed by one signature.
const MaxObserved = 7 * 24 * time.Hour

// Observation is until when calls that ask to be observed are judged and not held, and who said so.
type Observation struct {
	On    bool      `json:"on"`
	Until time.Time `json:"until,omitzero"`
	By    Principal `json:"by,omitempty"`
}

// ObservationChanged says until when calls that ask to be observed are judged and not held; a time that is over: they
// are held again. A person's has their signature.
type ObservationChanged struct {
	Until     time.Time  `json:"until"`
	By        Principal  `json:"by"`
	Signature *Signature `json:"signature,omitempty"`
}

// Kind implements Event.
func (ObservationChanged) Kind() string { return "observation.changed" }

// AlertRaised records what should not happen: an agent's decision, a bad signature, a changed seal, what a skill was not granted.
type AlertRaised struct {
	Reason    Reason     `json:"reason_code"`
	Principal Principal  `json:"principal"`
	PeerUID   int64      `json:"peer_uid"`
	Method    string     `json:"method"`
	Approval  ApprovalID `json:"approval_id,omitempty"`
	KeyID     string     `json:"key_id,omitempty"`
	Call      CallID     `json:"call_id,omitempty"`
	Path      string     `json:"path,omitempty"`  // that was changed, the first of them; what a skill reached for
	Count     int64      `json:"count,omitempty"` // coalesced repeats, or paths
}

// DoorFlood stands for many refusals at a door.
type DoorFlood struct {
	Door   string `json:"door"`
	Reason Reason `json:"reason_code"`
	Count  int64  `json:"count"`
}

// JournalExported records that journal entries left the system.
type JournalExported struct {
	By   Principal `json:"by"`
	From int64     `json:"from"`
	To   int64     `json:"to"`
}

// PostureChecked records what tiers held when a program inside tried to get out. The posture is kept by its digest.
type PostureChecked struct {
	Posture Digest    `json:"posture_digest"`
	By      Principal `json:"by"`     // who asked for it
	Held    []Tier    `json:"held"`   // tiers in which everything held
	Failed  []string  `json:"failed"` // what did not: "C", a tier that cannot be used, or "C/memory", one of its probes
}

// Kind implements Event.
func (StateBegun) Kind() string      { return "state.begun" }
func (DaemonStarted) Kind() string   { return "daemon.started" }
func (DaemonStopped) Kind() string   { return "daemon.stopped" }
func (KeyCreated) Kind() string      { return "key.created" }
func (KeyRotated) Kind() string      { return "key.rotated" }
func (PolicyActivated) Kind() string { return "policy.activated" }
func (AlertRaised) Kind() string     { return "alert.raised" }
func (DoorFlood) Kind() string       { return "door.flood" }
func (JournalExported) Kind() string { return "journal.exported" }
func (PostureChecked) Kind() string  { return "posture.checked" }

// VaultChanged is what was done in the vault, and to which secret, without values; get and export change nothing.
type VaultChanged struct {
	Action    string    `json:"action"` // vault.put, get, delete, rotate, bind, unbind, export, import
	Scope     string    `json:"scope,omitempty"`
	Name      string    `json:"name,omitempty"`
	Version   int64     `json:"version,omitempty"`
	Binding   string    `json:"binding,omitempty"`  // of that secret
	Versions  int64     `json:"versions,omitempty"` // of secrets that left by an export, or came by an import
	Mode      string    `json:"mode,omitempty"`     // of an export: everyone; of an import: replace, anew
	Counter   int64     `json:"counter"`            // of changes
	Keeper    string    `json:"keeper"`
	Key       string    `json:"key_id"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// Kind implements Event.
func (VaultChanged) Kind() string { return "vault.changed" }

// SecretUsed says that the value of a secret went out by a binding, and how often. It is written when what used it is over.
type SecretUsed struct {
	Binding  string    `json:"binding"`
	Scope    string    `json:"scope"`
	Secret   string    `json:"secret"`
	Host     string    `json:"host"`
	Count    int64     `json:"count"` // requests that had it
	By       Principal `json:"by"`
	Call     CallID    `json:"call_id,omitempty"`
	Upstream string    `json:"upstream,omitempty"` // the MCP server that used it
	Provider string    `json:"provider,omitempty"` // of models
}

// Kind implements Event.
func (SecretUsed) Kind() string { return "secret.used" }
