// Package device has the tool by which a machine becomes a paired device. Only the daemon proposes
// it, after the machine has proven that it knows the code an operator showed; so the pairing walks
// the gate like any other call: it is judged, a person is asked with the device's name and
// fingerprint before them, and the decision is signed, recorded and attested.
//
// The plan's arguments hold the device's whole public key, and Register gets exactly that key.
package device

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"unicode"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/passkey"
	"palyra/internal/tool"
)

// PairName is the tool's name.
const PairName = palyra.ToolPairDevice

// Pairing holds everything that a pairing decides.
type Pairing struct {
	Pairing   palyra.ID        `json:"pairing_id"`
	Name      string           `json:"name"`
	PublicKey string           `json:"public_key"` // base64: an Ed25519 key, or a passkey's in PKIX
	KeyID     string           `json:"key_id"`
	Print     string           `json:"fingerprint"`
	Address   string           `json:"address"`
	Principal palyra.Principal `json:"principal"`
	Role      palyra.Role      `json:"role"`
	By        palyra.Principal `json:"offered_by"`
	Browser   bool             `json:"browser,omitempty"` // it comes by the console
	Passkey   *palyra.Passkey  `json:"passkey,omitempty"`
}

// Config wires the tool.
type Config struct {
	// KeyID names a public key.
	KeyID func(ed25519.PublicKey) string
	// Register makes the device known and issues its certificate. It is called under a grant, with the id of the call.
	Register func(ctx context.Context, call palyra.CallID, p Pairing) (palyra.Device, error)
}

// All returns the package's tools.
func All(c Config) []tool.Tool { return []tool.Tool{pair{c}} }

type pair struct{ Config }

const maxInput = 8 << 10

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["pairing_id", "name", "public_key", "key_id", "fingerprint", "address", "principal", "role", "offered_by"],
  "properties": {
    "pairing_id": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The offer that it answered."},
    "name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "What the device calls itself."},
    "public_key": {"type": "string", "minLength": 44, "maxLength": 256, "description": "Its key, base64."},
    "key_id": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Name of the key."},
    "fingerprint": {"type": "string", "minLength": 1, "maxLength": 128, "description": "The key for people."},
    "address": {"type": "string", "minLength": 1, "maxLength": 128, "description": "Where it comes from."},
    "principal": {"type": "string", "minLength": 6, "maxLength": 128, "description": "Whose device it is to be."},
    "role": {"type": "string", "minLength": 1, "maxLength": 32, "description": "The most that it may do."},
    "offered_by": {"type": "string", "minLength": 1, "maxLength": 128, "description": "Who showed the code."},
    "browser": {"type": "boolean", "description": "It comes by the console."},
    "passkey": {
      "type": "object",
      "additionalProperties": false,
      "required": ["credential_id", "origin", "backup_eligible", "approver_separation"],
      "description": "Its key is a passkey's.",
      "properties": {
        "credential_id": {"type": "string", "minLength": 1, "maxLength": 512, "description": "As browsers name it."},
        "origin": {"type": "string", "minLength": 1, "maxLength": 300, "description": "Of the console where it was made."},
        "backup_eligible": {"type": "boolean", "description": "Copies of it may be on other machines."},
        "approver_separation": {"type": "string", "maxLength": 32, "description": "Decided by the answer."}
      }
    }
  }
}`

// Spec implements tool.Tool.
func (pair) Spec() palyra.Tool {
	return palyra.Tool{
		Name: PairName, Title: "Pair device", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin,
		Description: "Makes another machine a paired device of a person. Palyra calls it itself when a machine has proven that it " +
			"knows the code shown by 'palyra device pair'.",
		Capabilities: []palyra.Capability{palyra.DevicePair}, InputSchema: json.RawMessage(schema), MaxInput: maxInput,
	}
}

// Plan implements tool.Tool.
func (t pair) Plan(_ context.Context, env tool.Env, p *palyra.Plan) error {
	if env.Purpose == "" || env.Parent != "" { // only the daemon gives a purpose, and never for a pairing that came out of a call
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
			"Palyra itself proposes this, when a machine has proven that it knows a pairing code").
			WithRemedy("run 'palyra device pair' as an operator, and 'palyra device join' on the other machine")
	}
	a, err := t.decode(*p)
	if err != nil {
		return err
	}
	p.Detail.Summary = "pair " + a.Name + " (" + a.Address + ") as a device of " + string(a.Principal)
	p.Detail.Notes = append(p.Detail.Notes,
		"key "+a.Print+": compare it with what the other machine shows",
		"it may do what the role "+string(a.Role)+" may, as "+string(a.Principal),
		"it proved that it knows the code that "+string(a.By)+" was shown")
	if a.Browser {
		p.Detail.Summary = "pair the browser " + a.Name + " on this machine, to decide as " + string(a.Principal)
		p.Detail.Notes[0] = "key " + a.Print + ": compare it with what the page of the console shows"
		p.Detail.Notes = append(p.Detail.Notes, "it is a browser on this very machine: whatever runs here as you could use its key")
	}
	if a.Browser && passkey.Plain(a.Address) {
		p.Detail.Summary = "pair the browser " + a.Name + " at " + a.Address + ", to deny as " + string(a.Principal)
		p.Detail.Notes[len(p.Detail.Notes)-1] = "it comes over plain HTTP, where others on the way can be the page: its key only denies, for ever"
	}
	if a.Passkey != nil {
		p.Detail.Summary = "pair the passkey " + a.Name + " of " + a.Passkey.Origin + ", to decide as " + string(a.Principal)
		p.Detail.Notes[len(p.Detail.Notes)-1] = "each answer with it asks its authenticator, which verifies you"
		if a.Passkey.Eligible {
			p.Detail.Notes = append(p.Detail.Notes, "copies of it may be on your other machines: its authenticator can pass it on")
		}
	}
	if host, _, err := net.SplitHostPort(a.Address); err == nil && net.ParseIP(host).IsLoopback() {
		p.Detail.Notes = append(p.Detail.Notes, "it comes from this very machine: whatever runs here as you could use its key")
	}
	return nil
}

func (t pair) decode(p palyra.Plan) (a Pairing, err error) {
	if err := tool.Arguments(p, &a); err != nil {
		return a, err
	}
	if key, err := a.Key(); err != nil || t.KeyID(key) != a.KeyID {
		return a, malformed("the key is not one with the name that is given")
	}
	if a.Principal.Kind() != "user" {
		return a, malformed("a device belongs to a user")
	}
	if a.Passkey != nil && (!a.Browser || unprintable(a.Passkey.Origin) || a.Passkey.Separation != "") {
		return a, malformed("the passkey is not one that the console offered")
	}
	if slices.ContainsFunc([]string{a.Name, a.Print, a.Address, string(a.Principal), string(a.By), string(a.Role)}, unprintable) {
		return a, malformed("a name holds characters that do not show")
	}
	return a, nil
}

// Key is the bytes of the device's public key.
func (p Pairing) Key() ([]byte, error) {
	if p.Passkey != nil {
		key, err := passkey.ParseKey(p.PublicKey)
		return key.DER, err
	}
	return canon.Base64(p.PublicKey, ed25519.PublicKeySize)
}

func unprintable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) || strings.TrimSpace(s) != s
}

func malformed(text string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", text).
		WithRemedy("pair again with a current palyra on both machines")
}

// separation is how far a passkey is out of an agent's reach: its authenticator verifies the person, as a passphrase does,
// and yet it is no better than the answer that let it in, which an agent may have given with a key that lies open.
func separation(answered palyra.Separation) palyra.Separation {
	if answered.Rank() < palyra.SeparationPassphrase.Rank() {
		return palyra.SeparationNone
	}
	return palyra.SeparationPassphrase
}

// result is what the daemon sends to the device.
type result struct {
	Device      string        `json:"device_id"`
	Certificate palyra.Digest `json:"certificate"`
	Serial      string        `json:"serial"`
	ExpiresAt   string        `json:"expires_at"`
}

// Run implements tool.Tool.
func (t pair) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	a, err := t.decode(p)
	if err != nil {
		return nil, err
	}
	if a.Passkey != nil {
		a.Passkey.Separation = separation(env.Separation)
	}
	d, err := t.Register(ctx, env.Call, a)
	if err != nil {
		return nil, err
	}
	return tool.Encode(result{Device: d.ID, Certificate: d.Certificate, Serial: d.Serial, ExpiresAt: palyra.Time(d.ExpiresAt)})
}
