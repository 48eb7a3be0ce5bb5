package palyra

import "time"

// PairingOpened says that a code to pair with was shown. The code is nowhere.
type PairingOpened struct {
	Pairing   ID        `json:"pairing_id"`
	Principal Principal `json:"principal"` // whose device it is to be
	Role      Role      `json:"role"`
	Browser   bool      `json:"browser,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// PairingFailed is a try that came to nothing: a wrong code, one too late, one too many, or a person's no.
type PairingFailed struct {
	Pairing ID     `json:"pairing_id,omitempty"`
	Reason  Reason `json:"reason_code"`
	Address string `json:"address"`
	Tries   int64  `json:"tries"`
}

// DevicePaired makes a device known. The call behind it holds the decision.
type DevicePaired struct {
	Device  Device `json:"device"`
	Pairing ID     `json:"pairing_id"`
}

// DeviceRenewed gives a device its next certificate, for the key it has.
type DeviceRenewed struct {
	Device      string    `json:"device_id"`
	Certificate Digest    `json:"certificate"`
	Serial      string    `json:"serial"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// DeviceRevoked ends a device at once.
type DeviceRevoked struct {
	Device    string    `json:"device_id"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// UserAdded makes a person known. The first one of a state has no signature.
type UserAdded struct {
	User      User       `json:"user"`
	Signature *Signature `json:"signature,omitempty"`
}

// UserChanged gives a person another role or other workspaces.
type UserChanged struct {
	User      User      `json:"user"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// UserRemoved ends a person with every key, device and token of theirs.
type UserRemoved struct {
	Principal Principal `json:"principal"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// TokenAdded makes an API token known, but not itself.
type TokenAdded struct {
	Token     Token     `json:"token"`
	Signature Signature `json:"signature"`
}

// TokenRevoked ends one.
type TokenRevoked struct {
	Token     string    `json:"token_id"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// ConsoleOpened says that a browser was let in to look as a person.
type ConsoleOpened struct {
	Principal Principal `json:"principal"`
	Address   string    `json:"address"`
	ExpiresAt time.Time `json:"expires_at"`
}

// NoticesChanged says that a push service tells a closed browser of questions, or no longer. Where it takes messages is nowhere.
type NoticesChanged struct {
	Change    string     `json:"change"` // subscribed, unsubscribed, replaced, gone (says the service) or ended (with the device)
	Device    string     `json:"device_id"`
	Service   string     `json:"service"` // its host
	By        Principal  `json:"by"`
	Signature *Signature `json:"signature,omitempty"`
}

// Kind implements Event.
func (PairingOpened) Kind() string  { return "pairing.opened" }
func (PairingFailed) Kind() string  { return "pairing.failed" }
func (DevicePaired) Kind() string   { return "device.paired" }
func (DeviceRenewed) Kind() string  { return "device.renewed" }
func (DeviceRevoked) Kind() string  { return "device.revoked" }
func (UserAdded) Kind() string      { return "user.added" }
func (UserChanged) Kind() string    { return "user.changed" }
func (UserRemoved) Kind() string    { return "user.removed" }
func (TokenAdded) Kind() string     { return "token.added" }
func (TokenRevoked) Kind() string   { return "token.revoked" }
func (ConsoleOpened) Kind() string  { return "console.opened" }
func (NoticesChanged) Kind() string { return "notices.changed" }
