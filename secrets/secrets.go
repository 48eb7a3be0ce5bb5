// Package secrets has the words of the vault: what is told of secrets and of what keeps them. No value is in any of them.
package secrets

import (
	"strings"
	"time"

	"palyra"
	"palyra/internal/pattern"
)

// Scope is for whom a secret is: Global, principal:ID, channel:NAME, skill:ID or session:ID.
type Scope string

// Global is the scope of secrets that are for nobody in particular.
const Global Scope = "global"

// MinMasked is how many bytes a value has at least that is masked wherever it stands; masking a shorter one would tell it.
const MinMasked = 12

// Info is what may be told of one version of a secret.
type Info struct {
	Scope     Scope            `json:"scope"`
	Name      string           `json:"name"`
	Version   int64            `json:"version"`
	CreatedBy palyra.Principal `json:"created_by"`
	CreatedAt time.Time        `json:"created_at"`
	ExpiresAt time.Time        `json:"expires_at,omitzero"`
	Unmasked  bool             `json:"unmasked,omitempty"` // it is too short to be masked in what leaves
}

// Value is a secret that is to be kept.
type Value struct {
	Scope    Scope
	Name     string
	Value    palyra.Secret
	Expires  time.Time // zero: never
	Unmasked bool      // a short value, which is not masked in what leaves
	First    bool      // refused where there is a secret of that name already
}

// By is who does something with a secret: as what, and with what signature.
type By struct {
	Principal palyra.Principal
	Role      palyra.Role
	Signature palyra.Signature
}

// State is whether the secrets of a vault can be used.
type State string

// The states of a vault.
const (
	Empty   State = "empty" // it has not begun
	Open    State = "open"
	Locked  State = "locked"  // its key cannot be had
	Damaged State = "damaged" // it is not as it was left
)

// Status is how a vault is.
type Status struct {
	State    State    `json:"state"`
	Keeper   string   `json:"keeper"` // holds its key, or would
	Key      string   `json:"key_id,omitempty"`
	Counter  int64    `json:"counter"` // changes until now
	Versions int64    `json:"versions"`
	Bindings int64    `json:"bindings"`
	Keepers  []string `json:"keepers"`       // that are there
	Why      string   `json:"why,omitempty"` // it is not open
	Remedy   string   `json:"remedy,omitempty"`
}

// ImportMode is what becomes of a secret that the vault has otherwise than an export.
type ImportMode string

// The modes of an import.
const (
	Add     ImportMode = ""        // nothing is imported
	Replace ImportMode = "replace" // the versions of the export take the place of its versions
	Anew    ImportMode = "anew"    // the vault begins again with what is in the export, and nothing else, under a new key
)

// Limits of an export.
const (
	MaxExport = 1 << 30 // bytes of the file: the largest vault fits
	MaxPart   = 4 << 20 // bytes that are sent at once
)

// Imported is what came of an import.
type Imported struct {
	Versions int64  `json:"versions"` // that came into the vault
	Added    int64  `json:"added"`    // secrets that it did not have
	Replaced int64  `json:"replaced"`
	Same     int64  `json:"same"`     // secrets that it had already
	Bindings int64  `json:"bindings"` // that came into the vault
	Keeper   string `json:"keeper"`
}

// validName is what a secret may be called: it stands in policies, messages and command lines.
var validName = pattern.Later(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// CheckName refuses a name or a scope that cannot be one.
func CheckName(scope Scope, name string) error {
	if !validName().MatchString(name) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is no name of a secret: letters, digits and . _ - , at most 128",
			palyra.Clip(name, 64))
	}
	if scope == Global {
		return nil
	}
	kind, id, _ := strings.Cut(string(scope), ":")
	switch kind {
	case "principal", "channel", "skill", "session":
		if id != "" && len(id) <= 256 && !strings.ContainsFunc(id, unprintable) {
			return nil
		}
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is no scope", palyra.Clip(string(scope), 64)).
		WithRemedy("use global, principal:ID, channel:NAME, skill:ID or session:ID")
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }
