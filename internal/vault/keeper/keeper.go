// Package keeper holds vault keys: in files with strict modes, in files behind a passphrase, and in what the system has
// for it. Each is a vault.KeyKeeper, and held by one suite, internal/vault/keepertest.
//
// Promises: a key that was saved was read back before anybody relies on it; a keeper that is locked, gone or does not
// answer refuses in time, with what to do; no error has a key in it.
package keeper

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"maps"
	"regexp"
	"strings"

	"palyra"
)

// The names of keepers.
const (
	KeyFile       = "key-file"
	Passphrase    = "passphrase"
	SecretService = "secret-service"
	Keychain      = "keychain"
	DPAPI         = "dpapi"
)

// KeyKeeper is vault.KeyKeeper, which is not imported: keys are kept without a vault.
type KeyKeeper = interface {
	Load(ctx context.Context, id string, passphrase palyra.Secret) (palyra.Secret, error)
	Save(ctx context.Context, id string, key, passphrase palyra.Secret) error
	Forget(ctx context.Context, id string) error
}

// All returns every keeper that this system can have, by name, for the state whose keys lie in a directory. One whose
// service is not there is listed as well: it refuses, and says what is missing.
func All(dir string) map[string]KeyKeeper {
	all := map[string]KeyKeeper{KeyFile: NewFiles(dir), Passphrase: NewPassphrase(dir)}
	maps.Copy(all, systemKeepers(dir))
	return all
}

// place is where texts can lie, each under a checked id.
type place interface {
	// load returns a text, or a refusal where it cannot be had.
	load(ctx context.Context, id string) ([]byte, error)
	save(ctx context.Context, id string, text []byte) error
	forget(ctx context.Context, id string) error
	// name says where a text lies, for people.
	name(id string) string
}

// validID is what a key may be called: it stands in names of files and in commands of the system.
var validID = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,63}$`)

func checkID(id string) error {
	if validID.MatchString(id) {
		return nil
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is no id of a vault key", palyra.Clip(id, 64))
}

// locked is the refusal of a keeper that has no key to give now.
func locked(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, format, args...)
}

// unreachedError is why a keeper could not be asked: it holds what it held.
type unreachedError struct{ error }

// Unwrap is for errors.As.
func (e unreachedError) Unwrap() error { return e.error }

// Unreached tells a vault that nothing was kept.
func (unreachedError) Unreached() bool { return true }

// saveChecked has a place keep a text, and reads it back: a key that is not there the next time takes all secrets with it.
func saveChecked(ctx context.Context, p place, id string, text []byte) error {
	if err := p.save(ctx, id, text); err != nil {
		return err
	}
	back, err := p.load(ctx, id)
	defer clear(back)
	if err == nil && subtle.ConstantTimeCompare(back, text) != 1 {
		err = locked("another text was read from %s than was written", p.name(id)).WithRemedy("use another keeper: palyra vault status")
	}
	if err != nil {
		_ = p.forget(ctx, id) // the vault tries again
	}
	return err
}

// Unsealed keeps keys as they are, in a place that keeps others away.
type Unsealed struct{ place }

// Load implements vault.KeyKeeper.
func (k Unsealed) Load(ctx context.Context, id string, _ palyra.Secret) (palyra.Secret, error) {
	if err := checkID(id); err != nil {
		return palyra.Secret{}, err
	}
	text, err := k.load(ctx, id)
	if err != nil {
		return palyra.Secret{}, err
	}
	defer clear(text)
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return palyra.Secret{}, palyra.Errorf(palyra.Conflict, palyra.ReasonVaultLocked, "%s does not hold a key", k.name(id)).
			WithRemedy("put it back from a backup")
	}
	return palyra.NewSecret(raw), nil
}

// Save implements vault.KeyKeeper.
func (k Unsealed) Save(ctx context.Context, id string, key, _ palyra.Secret) error {
	if err := checkID(id); err != nil {
		return err
	}
	return key.Use(func(raw []byte) error {
		text := hex.AppendEncode(make([]byte, 0, 2*len(raw)+1), raw)
		defer clear(text[:cap(text)])
		return saveChecked(ctx, k.place, id, append(text, '\n'))
	})
}

// Forget implements vault.KeyKeeper.
func (k Unsealed) Forget(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return k.forget(ctx, id)
}
