package palyra

import "time"

// Device is another machine that a person paired with this daemon, with a key that was made there and never left it. A
// browser is one without a certificate: its key signs what the person decides at the console, and counts nowhere else.
type Device struct {
	ID          string    `json:"device_id"` // dev-<hex of its key>
	Name        string    `json:"name"`
	Principal   Principal `json:"principal"` // whose device it is
	Role        Role      `json:"role"`      // at most this, whatever role the person has
	KeyID       string    `json:"key_id"`    // as in signatures
	PublicKey   string    `json:"public_key"`
	Certificate Digest    `json:"certificate"` // of the current one, in DER
	Serial      string    `json:"serial"`
	ExpiresAt   time.Time `json:"expires_at"` // of the current certificate
	PairedAt    time.Time `json:"paired_at"`
	PairedBy    Principal `json:"paired_by"`
	Call        CallID    `json:"call_id"` // the call that paired it, with the decision behind it
	Address     string    `json:"address"` // where it paired from; of a browser, the console's
	SeenAt      time.Time `json:"seen_at,omitzero"`
	RevokedAt   time.Time `json:"revoked_at,omitzero"`
	RevokedBy   Principal `json:"revoked_by,omitempty"`
	Passkey     *Passkey  `json:"passkey,omitempty"` // nil: its key is no passkey
}

// Passkey is a credential of an authenticator (WebAuthn), whose key signs answers at one console by assertions.
type Passkey struct {
	Credential string     `json:"credential_id"` // base64url, as browsers name it
	Origin     string     `json:"origin"`        // of the console where it was made, with the port: it counts at no other
	Eligible   bool       `json:"backup_eligible"`
	Separation Separation `json:"approver_separation"` // no more than that of the answer that let it in
}

// Live reports whether d has not been revoked.
func (d Device) Live() bool { return d.RevokedAt.IsZero() }

// Browser reports whether d comes by the console: a browser, or a passkey.
func (d Device) Browser() bool { return d.ID != "" && d.Certificate == "" }

// Agent is the agent as whom programs on the device propose calls. The prefix is nobody else's.
func (d Device) Agent() Agent {
	return Agent{Principal: Principal("agent:" + DeviceAgent + d.Name), Owner: d.Principal, AddedAt: d.PairedAt, RemovedAt: d.RevokedAt}
}

// DeviceAgent begins the names of the agents of devices.
const DeviceAgent = "device."

// User is a person as the registry knows them. A credential of theirs (a key, a device, a token) may do what both its
// own role and theirs hold.
type User struct {
	Principal  Principal `json:"principal"`
	Role       Role      `json:"role"`
	Workspaces []string  `json:"workspaces,omitempty"` // only there; empty: everywhere
	AddedAt    time.Time `json:"added_at"`
	AddedBy    Principal `json:"added_by"`
	RemovedAt  time.Time `json:"removed_at,omitzero"`
}

// Token is an API token as it is kept: everything but itself.
type Token struct {
	ID         string       `json:"token_id"` // tok-<hex>; says nothing about the token
	Name       string       `json:"name"`
	Principal  Principal    `json:"principal"`            // the user or the agent that it speaks for
	Scopes     []Permission `json:"scopes"`               // permissions; never more than the principal's role holds
	Workspaces []string     `json:"workspaces,omitempty"` // only there; empty: wherever the principal may
	AddedAt    time.Time    `json:"added_at"`
	AddedBy    Principal    `json:"added_by"`
	ExpiresAt  time.Time    `json:"expires_at"`
	UsedAt     time.Time    `json:"used_at,omitzero"` // to the minute
	RevokedAt  time.Time    `json:"revoked_at,omitzero"`
	RevokedBy  Principal    `json:"revoked_by,omitempty"`
}

// PairingState is how far a pairing got.
type PairingState string

// The states of a pairing. Those from PairingDone on are final.
const (
	PairingOffered PairingState = "offered" // the code is shown; nobody has come
	PairingTrying  PairingState = "trying"  // a device is proving that it knows the code
	PairingProven  PairingState = "proven"  // it does; a person is asked
	PairingIssued  PairingState = "issued"  // the person said yes; the certificate is on its way
	PairingDone    PairingState = "paired"
	PairingRefused PairingState = "refused" // the person said no, or policy did
	PairingExpired PairingState = "expired"
	PairingLocked  PairingState = "locked" // too many wrong tries
	PairingGone    PairingState = "withdrawn"
)

// PairingOffer is what a person shows a code for.
type PairingOffer struct {
	Principal Principal // whose device it is to be
	Role      Role      // the most it may do
	Browser   bool      // it is to be a browser on the daemon's own machine
	By        Principal // who shows the code
	Signature Signature // their intent
}

// BrowserKey is a browser that wants to be a device.
type BrowserKey struct {
	Name      string
	PublicKey string    // base64: an Ed25519 key, or a passkey's in PKIX
	Principal Principal // who signed it in
	Code      Secret    // the PIN, or the code's text
	Console   string    // where the console is that it came to: its key is that origin's and no other's
	Passkey   *Passkey  // what it has is a passkey; nil: a key of its own
}

// Pairing is an offer to pair, as the person who made it watches it. PIN and Code are in the first message only.
type Pairing struct {
	ID        ID           `json:"pairing_id"`
	State     PairingState `json:"state"`
	PIN       string       `json:"pin,omitempty"`
	Code      string       `json:"code,omitempty"` // what the QR code holds
	Addresses []string     `json:"addresses,omitempty"`
	ExpiresAt time.Time    `json:"expires_at"`
	Principal Principal    `json:"principal"`
	Role      Role         `json:"role"`
	Tries     int64        `json:"tries"`
	Name      string       `json:"name,omitempty"`        // of the device, as it says
	KeyID     string       `json:"key_id,omitempty"`      // of the device's key
	Print     string       `json:"fingerprint,omitempty"` // the same for people, in groups
	Address   string       `json:"address,omitempty"`     // where it comes from
	Approval  ApprovalID   `json:"approval_id,omitempty"`
	Device    *Device      `json:"device,omitempty"`
	Reason    Reason       `json:"reason_code,omitempty"`
	Text      string       `json:"reason,omitempty"`
}

// Bearer is whom a token speaks for, and how far.
type Bearer struct {
	Principal    Principal
	Owner        Principal // whose agent it is
	Role         Role
	Cap          Role         // of the person behind it; a permission must be held by both
	Scopes       []Permission // nil: those of the role
	Within       []string     // workspaces; empty: all
	CredentialID string       // "token:tok-…" or the agent's own name
	ExpiresAt    time.Time    // when it ends by itself; zero: it does not
}
