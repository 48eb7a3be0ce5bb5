package ca

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/fault"
)

// Vault is a KeyStore that an operator moved keys into.
type Vault interface {
	KeyStore
	// Has reports whether there is a key of that name, also while the vault is locked.
	Has(ctx context.Context, name string) (bool, error)
	// Remove forgets a key, or one that it never had.
	Remove(ctx context.Context, name string) error
}

// Movable keeps keys in files <dir>/<name>.key, or in a vault where they were moved there. A file that is there counts:
// then the vault has none, or the same, left by a move that was cut off.
type Movable struct {
	files files
	vault Vault
	point func(string) // tests crash here
}

// NewMovable returns a store of files in a directory and of a vault, if there is one.
func NewMovable(dir string, v Vault) *Movable {
	return &Movable{files: files{dir: dir}, vault: v, point: fault.Point}
}

func (m *Movable) has(ctx context.Context, name string) (bool, error) {
	if m.vault == nil {
		return false, nil
	}
	return m.vault.Has(ctx, name)
}

// Load implements KeyStore.
func (m *Movable) Load(ctx context.Context, name string) (palyra.Secret, error) {
	s, err := m.files.Load(ctx, name)
	if palyra.CodeOf(err) != palyra.NotFound {
		return s, err
	}
	if there, e := m.has(ctx, name); e != nil || !there {
		return s, errors.Join(err, e)
	}
	s, err = m.vault.Load(ctx, name)
	if palyra.CodeOf(err) == palyra.NotFound { // the table has one that nobody vouches for: no new one may take its place
		err = palyra.Errorf(palyra.Conflict, palyra.ReasonVaultDamaged, "the vault does not give the key %s that its table has", name).
			WithRemedy("restore the state from a backup")
	}
	return s, err
}

// Store implements KeyStore.
func (m *Movable) Store(ctx context.Context, name string, s palyra.Secret) error {
	place, err := m.Place(ctx, name)
	if err != nil {
		return err
	}
	if place == (Place{Vault: true}) {
		return m.vault.Store(ctx, name, s)
	}
	if place.Vault { // what is left there would be of an earlier authority
		if err := m.vault.Remove(ctx, name); err != nil {
			return err
		}
	}
	return m.files.Store(ctx, name, s)
}

// Place is where a key lies. Both: a move was cut off, they have the same, and the file counts.
type Place struct{ File, Vault bool }

// Place is where a key lies.
func (m *Movable) Place(ctx context.Context, name string) (p Place, err error) {
	path, err := m.files.path(ctx, name)
	if err != nil {
		return p, err
	}
	if p.Vault, err = m.has(ctx, name); err != nil {
		return p, err
	}
	_, err = os.Lstat(path)
	if p.File = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("ca: keep: %w", err)
	}
	return p, nil
}

// Move brings a key into the vault, or back into its file. At every moment one of them has it, or both have the same: it is
// read back before it is removed where it was.
func (m *Movable) Move(ctx context.Context, name string, toVault bool, v Vault) error {
	place, err := m.Place(ctx, name)
	if err != nil || place == (Place{File: !toVault, Vault: toVault}) {
		return err
	}
	key, err := m.Load(ctx, name)
	if err != nil {
		return err
	}
	defer key.Destroy()
	to := KeyStore(&m.files)
	if toVault {
		to = v
	}
	if err := to.Store(ctx, name, key); err != nil {
		return err
	}
	m.point(name + ".copied/kept")
	if err := gives(ctx, to, name, key); err != nil {
		return err
	}
	if !toVault {
		return v.Remove(ctx, name)
	}
	if err := os.Remove(filepath.Join(m.files.dir, name+keyExt)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ca: move: %w", err)
	}
	m.point(name + ".unfiled/lost")
	if err := durable.SyncDir(m.files.dir); err != nil {
		return fmt.Errorf("ca: move: %w", err)
	}
	return nil
}

// gives refuses a store that does not give back the key that it was given.
func gives(ctx context.Context, from KeyStore, name string, key palyra.Secret) error {
	back, err := from.Load(ctx, name)
	if err != nil {
		return err
	}
	defer back.Destroy()
	return key.Use(func(want []byte) error {
		return back.Use(func(got []byte) error {
			if !bytes.Equal(got, want) {
				return palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "the key %s was kept, and another one comes back", name).
					WithRemedy("nothing was removed; see 'palyra keys where' and try again")
			}
			return nil
		})
	})
}

// Move brings the authority's keys into a vault, or back into their file; it takes turns with rotations.
func (a *Authority) Move(ctx context.Context, m *Movable, toVault bool, v Vault) error {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.turn }()
	return m.Move(ctx, secretName, toVault, v)
}

// Place is where the authority's keys lie, and why they cannot be used.
func (a *Authority) Place(ctx context.Context, m *Movable) (Place, error) {
	p, err := m.Place(ctx, secretName)
	if err == nil {
		err = a.Ready()
	}
	return p, err
}

// shut reports whether an error is a vault's that does not open.
func shut(err error) bool {
	reason := palyra.AsError(err).Reason
	return reason == palyra.ReasonVaultLocked || reason == palyra.ReasonVaultDamaged
}

// Ready says why the authority knows no device and issues nothing: its keys are in a vault that does not open. It is asked
// again each time, and then begins.
func (a *Authority) Ready() error {
	a.mu.RLock()
	known := len(a.st.issuers) > 0
	a.mu.RUnlock()
	if known {
		return nil
	}
	a.opening.Lock()
	defer a.opening.Unlock()
	a.mu.RLock()
	known = len(a.st.issuers) > 0
	a.mu.RUnlock()
	if known {
		return nil
	}
	ctx, done := context.WithTimeout(context.Background(), settleTime)
	defer done()
	st, err := a.ready(ctx)
	if err != nil {
		e := palyra.AsError(err)
		return palyra.Errorf(e.Code, e.Reason, "the keys of the device authority are in the vault, which does not open: %s", e.Text).
			WithRemedy("%s", e.Remedy).WithCause(err)
	}
	a.mu.Lock()
	a.st = st
	a.mu.Unlock()
	return nil
}
