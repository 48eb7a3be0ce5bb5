package keyring

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"palyra"
	"palyra/internal/durable"
)

// Place is where a private half lies. File and vault: a move was cut off, both have the same, and the file counts.
type Place struct{ File, Vault, Credential bool }

// Place is where the private half of the key of a use lies, and why it cannot be used.
func (r *Ring) Place(use palyra.KeyUse) (Place, error) {
	pl, err := r.place(use)
	out := Place{}
	switch pl := pl.(type) {
	case shelf:
		out.Vault = true
	case files:
		out.File, out.Credential = !pl.credential, pl.credential
		if there, e := r.inVault(use); e == nil && there {
			out.Vault = !pl.credential
		}
	}
	if s := r.Signer(use); err == nil && s != nil {
		err = s.Ready()
	}
	return out, err
}

// Move moves the private half of a use into the vault, or back into a file. What it changes in the vault is on record as
// done by whom v says. At every moment one place has it, or both have the same, and then the file counts:
//
//	the second place has it too     crash: both; the same move goes on from there, the other one takes it back
//	the first place has it no more  crash: nothing is left to do
//
// Where the key is in place already it only finishes what an earlier move left.
func (r *Ring) Move(ctx context.Context, use palyra.KeyUse, toVault bool, v Vault) error {
	if !slices.Contains(Movable(), use) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the %s key stays where it is", palyra.Clip(string(use), 40)).
			WithRemedy("those that can be moved are %q, and the authority of devices", Movable())
	}
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.release()
	if err := r.load(ctx, use); err != nil { // and finish a rotation, so that there is one key
		return err
	}
	pl, err := r.place(use)
	if err != nil {
		return err
	}
	from, inFile := pl.(files)
	switch s := r.Signer(use); {
	case inFile && from.credential:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "the %s key is a credential of the service", use).
			WithRemedy("the service gives it at each start; there is no file of Palyra's to move")
	case inFile && toVault:
		return r.intoVault(from, s, shelf{v, use})
	case inFile:
		return shelf{v, use}.clear()
	case toVault:
		return nil
	default:
		return r.intoFile(s, shelf{v, use})
	}
}

// intoVault moves the key of a file into the vault.
func (r *Ring) intoVault(from files, s *Signer, to shelf) error {
	err := s.private.Use(func(key []byte) error { return to.write(string(s.use), key) })
	if err != nil {
		return err
	}
	r.point("key.vaulted/kept")
	if err := same(to, s); err != nil {
		return err
	}
	if err := os.Remove(from.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keyring: move: %w", err)
	}
	r.point("key.unfiled/lost")
	if err := durable.SyncDir(from.dir); err != nil {
		return fmt.Errorf("keyring: move: %w", err)
	}
	r.point("key.unfiled/kept")
	return nil
}

// intoFile moves the key of the vault into a file.
func (r *Ring) intoFile(s *Signer, from shelf) error {
	to := files{dir: r.cfg.Dir, use: s.use}
	private, err := s.half()
	if err == nil {
		err = private.Use(func(key []byte) error { return writeKey(to.file(), key) })
	}
	if err != nil {
		return err
	}
	r.point("key.filed/kept")
	if err := same(to, s); err != nil {
		return err
	}
	if err := from.clear(); err != nil {
		return err
	}
	r.point("key.unvaulted/kept")
	return nil
}

// same refuses a place that does not give back the key that it was given.
func same(p place, s *Signer) error {
	back, err := p.held()
	if err != nil {
		return err
	}
	defer clear(back)
	if back == nil || !public(back).Equal(ed25519.PublicKey(s.pub)) {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "the %s key was kept in %s, which gives another one back",
			s.use, p.name()).WithRemedy("nothing was removed; see 'palyra keys where' and try again")
	}
	return nil
}

// forgetCopy removes from the vault what a move that was cut off left there beside a file, which counts.
func (r *Ring) forgetCopy(use palyra.KeyUse, pl place) error {
	if _, inFile := pl.(files); !inFile {
		return nil
	}
	there, err := r.inVault(use)
	if err != nil || !there {
		return err
	}
	return shelf{r.vault, use}.clear()
}
