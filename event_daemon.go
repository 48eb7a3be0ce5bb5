package palyra

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

// AlertRaised records what should not happen: a decision with an agent's credential, a replayed or altered signature,
// a stale digest, a sealed path that was changed while a run was under way.
type AlertRaised struct {
	Reason    Reason     `json:"reason_code"`
	Principal Principal  `json:"principal"`
	PeerUID   int64      `json:"peer_uid"`
	Method    string     `json:"method"`
	Approval  ApprovalID `json:"approval_id,omitempty"`
	KeyID     string     `json:"key_id,omitempty"`
	Call      CallID     `json:"call_id,omitempty"`
	Path      string     `json:"path,omitempty"`  // that was changed; the first of them
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
func (StateBegun) Kind() string { return "state.begun" }

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
func (AlertRaised) Kind() string { return "alert.raised" }

// Kind implements Event.
func (DoorFlood) Kind() string { return "door.flood" }

// Kind implements Event.
func (JournalExported) Kind() string { return "journal.exported" }

// Kind implements Event.
func (PostureChecked) Kind() string { return "posture.checked" }

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

// SignatureMade is a signature by a bound key, on record before it is given away.
type SignatureMade struct {
	Call      CallID  `json:"call_id"`            // of the program that wanted it
	Grant     GrantID `json:"grant_id,omitempty"` // of the call by which it was asked for: its plan has what was shown
	Binding   string  `json:"binding"`
	Use       string  `json:"use"` // ssh_login, commit, tag
	Key       string  `json:"key"` // fingerprint
	Digest    Digest  `json:"payload_digest"`
	Algorithm string  `json:"algorithm,omitempty"`
	HostKey   string  `json:"host_key,omitempty"` // of ssh_login: the server's fingerprint
	User      string  `json:"user,omitempty"`     // of ssh_login
}

// Kind implements Event.
func (SignatureMade) Kind() string { return "signature.made" }
