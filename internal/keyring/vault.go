package keyring

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"time"

	"palyra"
)

// Vault keeps private keys that an operator moved into it, each under a name.
type Vault interface {
	// Has reports whether there is one, also while the vault is locked.
	Has(ctx context.Context, name string) (bool, error)
	// Load returns a key, NotFound where there is none; the caller destroys it.
	Load(ctx context.Context, name string) (palyra.Secret, error)
	// Store keeps a key whole or not at all, in the place of one before.
	Store(ctx context.Context, name string, key palyra.Secret) error
	// Remove forgets a key, or one that it never had.
	Remove(ctx context.Context, name string) error
}

// Movable are the uses whose keys may be in the vault. The journal's may not: it is written while the vault is locked, and
// is what the vault is held against when it is opened.
func Movable() []palyra.KeyUse { return []palyra.KeyUse{Attestation} }

// vaultPatience is how long the vault may take.
const vaultPatience = 20 * time.Second

// late is a private half that is asked for when it is first needed.
type late struct {
	mu    sync.Mutex
	fetch func() (palyra.Secret, error)
	got   bool
	key   palyra.Secret
}

// half is the private half.
func (s *Signer) half() (palyra.Secret, error) {
	if s.late == nil {
		return s.private, nil
	}
	s.late.mu.Lock()
	defer s.late.mu.Unlock()
	if !s.late.got {
		key, err := s.late.fetch()
		if err != nil {
			return palyra.Secret{}, err
		}
		s.late.key, s.late.got = key, true
	}
	return s.late.key, nil
}

// Ready says why the key cannot sign now: it is in a vault that is locked.
func (s *Signer) Ready() error {
	_, err := s.half()
	return err
}

// absent reports whether a key that is on record has no file, and may be in the vault.
func (r *Ring) absent(use palyra.KeyUse, held, staged ed25519.PrivateKey) bool {
	return held == nil && staged == nil && slices.Contains(Movable(), use)
}

// late is a signer of a key on record whose private half the vault has.
func (r *Ring) late(k TrustKey) (*Signer, error) {
	pub, err := base64.StdEncoding.DecodeString(k.PublicKey)
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonConfig, "the %s key on record is none", k.Use).
			WithRemedy("restore the state from a backup")
	}
	s := &Signer{use: k.Use, name: verifierName(k.Verifier), pub: pub}
	s.late = &late{fetch: func() (palyra.Secret, error) { return r.fetch(k) }}
	return s, nil
}

// fetch gets a private half out of the vault, and finishes there what a crash cut short.
func (r *Ring) fetch(k TrustKey) (palyra.Secret, error) {
	ctx, done := context.WithTimeout(context.Background(), vaultPatience)
	defer done()
	if err := r.take(ctx); err != nil {
		return palyra.Secret{}, err
	}
	defer r.release()
	pl, err := r.place(k.Use)
	if err != nil {
		return palyra.Secret{}, err
	}
	s, err := r.settle(k.Use, &k)
	if err != nil {
		return palyra.Secret{}, err
	}
	if s.late != nil { // neither a file nor the vault has it
		return palyra.Secret{}, other(k.Use, pl, k.ID)
	}
	return s.private, nil
}

// SetVault gives the ring the vault. A key that neither it nor a file has is refused; one that the vault has and does not
// give now is asked for again when it is needed.
func (r *Ring) SetVault(ctx context.Context, v Vault) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.release()
	r.mu.Lock()
	r.vault = v
	r.mu.Unlock()
	for _, use := range Movable() {
		s := r.Signer(use)
		if s.late == nil {
			continue
		}
		there, err := r.inVault(use)
		if err != nil {
			return err
		}
		if !there {
			return other(use, files{dir: r.cfg.Dir, use: use}, s.KeyID())
		}
		if err := r.load(ctx, use); err != nil && !shut(err) {
			return err
		}
	}
	return nil
}

// shut reports whether an error is a vault's that does not open.
func shut(err error) bool {
	reason := palyra.AsError(err).Reason
	return reason == palyra.ReasonVaultLocked || reason == palyra.ReasonVaultDamaged
}

// inVault reports whether the vault has a key of that use.
func (r *Ring) inVault(use palyra.KeyUse) (bool, error) {
	r.mu.Lock()
	v := r.vault
	r.mu.Unlock()
	if v == nil || !slices.Contains(Movable(), use) {
		return false, nil
	}
	ctx, done := context.WithTimeout(context.Background(), vaultPatience)
	defer done()
	for _, name := range []string{string(use), nextName(use)} {
		if there, err := v.Has(ctx, name); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

func nextName(use palyra.KeyUse) string { return string(use) + "-next" }

// shelf is a place in the vault.
type shelf struct {
	vault Vault
	use   palyra.KeyUse
}

func (p shelf) name() string { return "the vault" }

func (p shelf) held() (ed25519.PrivateKey, error) { return p.read(string(p.use)) }

func (p shelf) next() (ed25519.PrivateKey, error) { return p.read(nextName(p.use)) }

func (p shelf) read(name string) (key ed25519.PrivateKey, err error) {
	ctx, done := context.WithTimeout(context.Background(), vaultPatience)
	defer done()
	kept, err := p.vault.Load(ctx, name)
	if palyra.CodeOf(err) == palyra.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, p.explained(err)
	}
	defer kept.Destroy()
	err = kept.Use(func(raw []byte) (err error) {
		key, err = parseKey("the vault's "+name+" key", raw)
		return err
	})
	return key, err
}

// explained says what a vault that does not open means.
func (p shelf) explained(err error) error {
	if err == nil || !shut(err) {
		return err
	}
	e := palyra.AsError(err)
	return palyra.Errorf(e.Code, e.Reason, "the %s key is in the vault, which does not open: %s", p.use, e.Text).
		WithRemedy("%s", e.Remedy).WithCause(err)
}

// stage implements place.
func (p shelf) stage() (ed25519.PrivateKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return key, p.write(nextName(p.use), key)
}

func (p shelf) write(name string, key ed25519.PrivateKey) error {
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	s := palyra.NewSecret(text)
	defer s.Destroy()
	ctx, done := context.WithTimeout(context.Background(), vaultPatience)
	defer done()
	return p.explained(p.vault.Store(ctx, name, s))
}

// promote implements place. The next key has both names for a moment: the table says that it counts.
func (p shelf) promote() error {
	key, err := p.next()
	if err != nil {
		return err
	}
	if key == nil {
		return errors.New("keyring: there is no next key in the vault")
	}
	if err := p.write(string(p.use), key); err != nil {
		return err
	}
	return p.drop()
}

// drop implements place.
func (p shelf) drop() error { return p.remove(nextName(p.use)) }

func (p shelf) remove(name string) error {
	ctx, done := context.WithTimeout(context.Background(), vaultPatience)
	defer done()
	return p.explained(p.vault.Remove(ctx, name))
}

// clear removes all that the vault has of the use.
func (p shelf) clear() error {
	return errors.Join(p.drop(), p.remove(string(p.use)))
}
