package client

import (
	"palyra"
	"palyra/internal/identity"
)

// OperatorKey is an opened key file of an operator: a Signer that also tells its public half and
// its separation from agents. Close it after use.
type OperatorKey = identity.Signer

// MinPassphrase is the shortest passphrase for a key, in bytes.
const MinPassphrase = identity.MinPassphrase

// LoadSigner opens an operator's key file. passphrase is called at the first
// signature of a protected key, and only then; it must ask the person.
func LoadSigner(path string, passphrase func() (palyra.Secret, error)) (*OperatorKey, error) {
	return identity.Load(path, passphrase)
}

// CreateProtectedKey makes a new operator's key in a file that must not exist yet, behind a
// passphrase from its first byte on. The caller still owns the passphrase; the returned key signs
// without asking until it is closed. The daemon does not know the key until AddOperator.
func CreateProtectedKey(path string, passphrase palyra.Secret) (*OperatorKey, error) {
	return identity.CreateProtected(path, passphrase)
}

// CheckPassphrase refuses a passphrase that CreateProtectedKey would refuse, so
// that a person need not type it twice.
func CheckPassphrase(passphrase palyra.Secret) error { return identity.CheckPassphrase(passphrase) }
