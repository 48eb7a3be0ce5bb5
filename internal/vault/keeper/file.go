package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/durable"
)

const (
	maxFile = 4096
	// MinPassphrase is the shortest passphrase that a vault is put behind, in bytes.
	MinPassphrase = agefile.MinPassphrase
)

// files are keys in a directory of the daemon's own.
type files struct{ dir, suffix string }

func (f files) name(id string) string { return filepath.Join(f.dir, "vault-"+id+f.suffix) }

func (f files) save(_ context.Context, id string, text []byte) error {
	if err := durable.WriteFile(f.name(id), text, 0o600); err != nil {
		return fmt.Errorf("keeper: write key: %w", err)
	}
	return nil
}

// load returns what is in a key's file, which nobody else can read or could have put there.
func (f files) load(_ context.Context, id string) ([]byte, error) {
	path := f.name(id)
	text, err := readOwn(path)
	switch unsafe := (*unsafeError)(nil); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, locked("the vault's key is not there: %s", path).
			WithRemedy("put the file back from a backup; without one, begin anew from an export: palyra vault import --anew FILE")
	case errors.As(err, &unsafe):
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "the vault's key is not safe in %s: %s", path, unsafe.why).
			WithRemedy("%s", unsafe.fix)
	case err != nil:
		return nil, fmt.Errorf("keeper: read key: %w", err)
	}
	return text, nil
}

// unsafeError is why a file is not one to trust.
type unsafeError struct{ why, fix string }

func (e *unsafeError) Error() string { return "keeper: " + e.why }

// forget removes a key. What was written is overwritten first, as best a file system allows.
func (f files) forget(_ context.Context, id string) error {
	path := f.name(id)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		if file, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_, _ = file.Write(make([]byte, info.Size()))
			_ = file.Sync()
			_ = file.Close()
		}
	}
	left, _ := filepath.Glob(filepath.Join(f.dir, "."+filepath.Base(path)+"*.tmp")) // of a write that was cut short
	for _, p := range append(left, path) {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keeper: forget key: %w", err)
		}
	}
	return durable.SyncDir(f.dir)
}

// NewFiles keeps keys as they are, in files of a directory that only the daemon's user can read.
func NewFiles(dir string) Unsealed { return Unsealed{files{dir, ".key"}} }

// Behind keeps keys in files that a passphrase opens.
type Behind struct{ files }

// NewPassphrase returns the keeper of a directory.
func NewPassphrase(dir string) Behind { return Behind{files{dir, ".age"}} }

// Load implements vault.KeyKeeper.
func (k Behind) Load(ctx context.Context, id string, passphrase palyra.Secret) (palyra.Secret, error) {
	if err := checkID(id); err != nil {
		return palyra.Secret{}, err
	}
	text, err := k.load(ctx, id)
	if err != nil {
		return palyra.Secret{}, err
	}
	if passphrase.Empty() {
		return palyra.Secret{}, locked("the vault is locked").WithRemedy("open it: palyra vault unlock")
	}
	var key []byte
	err = passphrase.Use(func(pass []byte) (err error) {
		key, err = agefile.Open(text, pass, maxFile)
		return err
	})
	if errors.Is(err, agefile.ErrPassphrase) {
		return palyra.Secret{}, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the passphrase does not open the vault").
			WithRemedy("try again; without the passphrase, begin anew from an export: palyra vault import --anew FILE").WithCause(err)
	}
	return palyra.NewSecret(key), err
}

// Save implements vault.KeyKeeper.
func (k Behind) Save(ctx context.Context, id string, key, passphrase palyra.Secret) error {
	if err := checkID(id); err != nil {
		return err
	}
	if passphrase.Empty() {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a new key behind a passphrase needs one").
			WithRemedy("run 'palyra vault rotate --keeper passphrase' on a terminal")
	}
	return passphrase.Use(func(pass []byte) error {
		if len(pass) < MinPassphrase {
			return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a passphrase needs %d characters or more; nothing was changed",
				MinPassphrase)
		}
		return key.Use(func(raw []byte) error {
			text, err := agefile.Seal(raw, pass)
			if err != nil {
				return err
			}
			return saveChecked(ctx, k.files, id, text)
		})
	})
}

// Forget implements vault.KeyKeeper.
func (k Behind) Forget(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return k.forget(ctx, id)
}
