package vault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

var errCut = errors.New("vault: a sealed text is cut short")

// Put keeps a value as the next version of a secret, and returns what is known of it.
func (v *Vault) Put(ctx context.Context, in secrets.Value, by secrets.By) (secrets.Info, error) {
	if err := v.permit(ctx, by, "vault.put", in.Scope, in.Name); err != nil {
		return secrets.Info{}, err
	}
	if err := v.checkValue(in); err != nil {
		return secrets.Info{}, err
	}
	var info secrets.Info
	err := v.change(ctx, "vault.put", by, func(tx *store.Tx, c *change) error {
		if err := c.fit(in); err != nil {
			return err
		}
		if in.First && c.last(string(in.Scope), in.Name) > 0 {
			return nameTaken(in.Scope, in.Name)
		}
		r := row{
			ident: ident{string(in.Scope), in.Name, c.last(string(in.Scope), in.Name) + 1}, dataKey: string(v.NewID()), vaultKey: c.key,
			unmasked: flag(in.Unmasked), by: by.Principal, created: v.Now().UnixNano(), expires: store.Nanos(in.Expires),
		}
		if err := r.seal(in.Value, c.keys); err != nil {
			return err
		}
		if err := insert(tx, r); err != nil {
			return err
		}
		c.leaves[r.ident] = r.leaf()
		if err := c.prune(tx, r.ident); err != nil {
			return err
		}
		if err := c.fits(); err != nil {
			return err
		}
		c.event.Scope, c.event.Name, c.event.Version = string(in.Scope), in.Name, r.version
		info = r.info()
		return nil
	})
	return info, err
}

// fits refuses a change after which the vault holds too much.
func (c *change) fits() error {
	if secretLeaves(c.leaves) <= MaxSecrets {
		return nil
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "the vault holds %d versions of secrets, the most it can", MaxSecrets).
		WithRemedy("remove what nobody needs: palyra vault delete")
}

func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// checkValue refuses what cannot be kept.
func (v *Vault) checkValue(in secrets.Value) error {
	if !in.Expires.IsZero() && !in.Expires.After(v.Now()) {
		return invalid("the secret would have expired already").WithRemedy("give a later time, or none")
	}
	return in.Value.Use(func(b []byte) error {
		switch n := len(b); {
		case n == 0:
			return invalid("the value is empty").WithRemedy("give one on standard input or from a file")
		case n > MaxValue:
			return invalid("the value has %d bytes, more than %d", n, MaxValue).WithRemedy("keep the large part in a file, and its key here")
		case n < secrets.MinMasked && !in.Unmasked:
			return invalid("the value is shorter than %d bytes: to mask it wherever it stands would tell it", secrets.MinMasked).
				WithRemedy("use a longer one, or say --unmasked: it is then shown where a program prints it")
		}
		return nil
	})
}

func invalid(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...)
}

// seal seals a value under a new data key.
func (r *row) seal(value palyra.Secret, keys derived) error {
	data := newKey()
	defer data.Destroy()
	err := value.Use(func(text []byte) (err error) {
		r.sealed, err = seal(data, text, r.aboutValue())
		return err
	})
	if err != nil {
		return err
	}
	return r.wrap(data, keys)
}

// wrap wraps the data key.
func (r *row) wrap(data palyra.Secret, keys derived) error {
	return data.Use(func(k []byte) (err error) {
		r.wrapped, err = seal(keys.wrap, k, r.aboutKey())
		return err
	})
}

// unwrap returns the data key.
func (r row) unwrap(keys derived) (palyra.Secret, error) {
	data, ok := unseal(keys.wrap, r.wrapped, r.aboutKey())
	if !ok {
		return data, r.damaged("its key does not open")
	}
	return data, nil
}

func (r row) damaged(why string) *palyra.Error {
	return damaged(fmt.Sprintf("version %d of %s in %s: %s", r.version, palyra.Clip(r.name, 128), palyra.Clip(r.scope, 128), why))
}

func insert(tx *store.Tx, r row) error {
	_, err := tx.Exec(`INSERT INTO vault_secrets (scope, name, version, data_key, vault_key, wrapped, sealed, unmasked, created_by, created_at,
		expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.scope, r.name, r.version, r.dataKey, r.vaultKey, r.wrapped, r.sealed, r.unmasked, string(r.by), r.created, r.expires)
	return err
}

// change is a change of the vault on its way: what it will hold.
type change struct {
	manifest
	keys derived
	listed
	event palyra.VaultChanged
}

// last is the last version of a secret; 0: there is none.
func (c *change) last(scope, name string) int64 { return last(c.leaves, scope, name) }

func last(leaves map[ident]leaf, scope, name string) (last int64) {
	for i := range leaves {
		if i.scope == scope && i.name == name {
			last = max(last, i.version)
		}
	}
	return last
}

// prune removes the versions of a secret that are too many.
func (c *change) prune(tx *store.Tx, of ident) error {
	var all []ident
	for i := range c.leaves {
		if i.scope == of.scope && i.name == of.name {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, ident.compare)
	for _, i := range all[:max(0, len(all)-MaxVersions)] {
		if err := c.remove(tx, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) remove(tx *store.Tx, i ident) error {
	delete(c.leaves, i)
	_, err := tx.Exec(`DELETE FROM vault_secrets WHERE scope=? AND name=? AND version=?`, i.scope, i.name, i.version)
	return err
}

// change makes a change with its line in the journal, whole or not at all.
func (v *Vault) change(ctx context.Context, what string, by secrets.By, f func(*store.Tx, *change) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, err := v.open(ctx, palyra.Secret{})
	if errors.Is(err, errNone) {
		h, err = v.begin(ctx, v.First, palyra.Secret{})
	}
	if err != nil {
		return err
	}
	return v.apply(ctx, h, what, by, f)
}

// apply makes a change of an open vault. v.mu is held.
func (v *Vault) apply(ctx context.Context, h *held, what string, by secrets.By, f func(*store.Tx, *change) error) error {
	var next *held
	err := v.DB.Write(ctx, what, func(tx *store.Tx) error {
		if m, err := readManifest(tx); h.counter > 0 && !h.anew && (err != nil || m.counter != h.counter || string(m.mac) != string(h.mac)) {
			return errors.Join(damaged("the list of what it holds was changed while it was open"), err)
		}
		c := &change{manifest: h.manifest, keys: h.keys, listed: h.clone()}
		c.counter++
		if err := f(tx, c); err != nil {
			return err
		}
		c.mac = c.sum(c.leaves, c.keys)
		if err := c.write(tx); err != nil {
			return err
		}
		c.event.Action, c.event.Counter, c.event.Keeper, c.event.Key = what, c.counter, c.keeper, c.key
		c.event.By, c.event.Signature = by.Principal, by.Signature
		_, err := v.Journal.Append(tx, c.event)
		next = &held{manifest: c.manifest, keys: c.keys, listed: c.listed}
		return err
	})
	if err != nil {
		return err
	}
	v.held = next
	v.tellNew(ctx, h, next)
	return nil
}

// Delete removes a secret with all its versions, or one of them.
func (v *Vault) Delete(ctx context.Context, scope secrets.Scope, name string, version int64, by secrets.By) error {
	if err := v.permit(ctx, by, "vault.delete", scope, name); err != nil {
		return err
	}
	return v.change(ctx, "vault.delete", by, func(tx *store.Tx, c *change) error {
		found := false
		for _, i := range slices.Collect(maps.Keys(c.leaves)) {
			if i.scope == string(scope) && i.name == name && (version == 0 || i.version == version) {
				found = true
				if err := c.remove(tx, i); err != nil {
					return err
				}
			}
		}
		if !found {
			return missing(scope, name)
		}
		c.event.Scope, c.event.Name, c.event.Version = string(scope), name, version
		return nil
	})
}

// nameTaken refuses to put a first value in the place of another.
func nameTaken(scope secrets.Scope, name string) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "there is a secret %s in %s already", palyra.Clip(name, 128),
		palyra.Clip(string(scope), 128)).
		WithRemedy("see 'palyra vault list'; if nobody needs it, delete it: palyra vault delete %s", palyra.Clip(name, 128))
}

func missing(scope secrets.Scope, name string) *palyra.Error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no secret %s in %s", palyra.Clip(name, 128),
		palyra.Clip(string(scope), 128)).
		WithRemedy("see 'palyra vault list', or put it: palyra vault put %s", palyra.Clip(name, 128))
}

// Get returns the value of a version of a secret; version 0: of the last. Whoever is shown it, or uses it, is to be on
// record: that is the caller's to do.
func (v *Vault) Get(ctx context.Context, scope secrets.Scope, name string, version int64) (palyra.Secret, secrets.Info, error) {
	if err := secrets.CheckName(scope, name); err != nil {
		return palyra.Secret{}, secrets.Info{}, err
	}
	h, err := v.hold(ctx)
	if errors.Is(err, errNone) {
		err = missing(scope, name)
	}
	if err != nil {
		return palyra.Secret{}, secrets.Info{}, err
	}
	defer v.mu.RUnlock()
	if version <= 0 { // of those that are authentic: a table from which the last is gone has another
		version = h.last(string(scope), name)
	}
	r := row{ident: ident{string(scope), name, version}}
	if _, ok := h.leaves[r.ident]; !ok {
		return palyra.Secret{}, secrets.Info{}, missing(scope, name)
	}
	err = v.DB.Read(ctx, func(tx *store.Tx) (err error) {
		r, err = r.fetch(tx)
		return err
	})
	if err != nil {
		return palyra.Secret{}, secrets.Info{}, err
	}
	value, err := v.read(h, r)
	return value, r.info(), err
}

// fetch reads the row of a version that the vault has.
func (r row) fetch(tx *store.Tx) (row, error) {
	found := row{}
	err := store.ErrNoRows
	each := tx.Each(`SELECT `+rowColumns+`, sealed FROM vault_secrets WHERE scope=? AND name=? AND version=?`,
		[]any{r.scope, r.name, r.version}, func(scan func(...any) error) error {
			err = scan(append(found.places(), &found.sealed)...)
			return nil
		})
	switch {
	case each != nil:
		return r, fmt.Errorf("vault: get: %w", each)
	case errors.Is(err, store.ErrNoRows):
		return r, r.damaged("it is gone")
	case err != nil:
		return r, r.damaged("it is not the one that was put").WithCause(err)
	}
	return found, nil
}

// hold returns the open vault, which nobody changes until v.mu.RUnlock. After an error there is nothing to unlock.
func (v *Vault) hold(ctx context.Context) (*held, error) {
	v.mu.RLock()
	if v.held != nil {
		return v.held, nil
	}
	v.mu.RUnlock()
	v.mu.Lock()
	_, err := v.open(ctx, palyra.Secret{})
	v.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v.mu.RLock()
	if v.held == nil {
		v.mu.RUnlock()
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "the vault was locked meanwhile").WithRemedy("try again")
	}
	return v.held, nil
}

// read opens a row.
func (v *Vault) read(h *held, r row) (palyra.Secret, error) {
	if known, ok := h.leaves[r.ident]; !ok || known != r.leaf() {
		return palyra.Secret{}, r.damaged("it is not the one that was put")
	}
	if r.expires != 0 && v.Now().UnixNano() >= r.expires {
		return palyra.Secret{}, palyra.Errorf(palyra.Expired, palyra.ReasonSecretExpired, "the secret %s expired on %s", palyra.Clip(r.name, 128),
			store.Moment(r.expires).Format(time.RFC3339)).WithRemedy("put a new one: palyra vault put %s", palyra.Clip(r.name, 128))
	}
	return r.open(h.keys)
}

// open returns the value.
func (r row) open(keys derived) (palyra.Secret, error) {
	data, err := r.unwrap(keys)
	if err != nil {
		return palyra.Secret{}, err
	}
	defer data.Destroy()
	value, ok := unseal(data, r.sealed, r.aboutValue())
	if !ok {
		return palyra.Secret{}, r.damaged("its value does not open")
	}
	return value, nil
}

// info is what may be told of a secret.
func (r row) info() secrets.Info {
	return secrets.Info{
		Scope: secrets.Scope(r.scope), Name: r.name, Version: r.version, CreatedBy: r.by, CreatedAt: store.Moment(r.created),
		ExpiresAt: store.Moment(r.expires), Unmasked: r.unmasked != 0,
	}
}

// List returns what may be told of every version of every secret, also while the vault is locked.
func (v *Vault) List(ctx context.Context) ([]secrets.Info, error) {
	list := []secrets.Info{}
	err := v.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT `+rowColumns+` FROM vault_secrets WHERE scope<>'daemon' ORDER BY scope, name, version`, nil, func(scan func(...any) error) error {
			var r row
			if err := scan(r.places()...); err != nil {
				return damaged("a secret is kept as no secret can be").WithCause(err)
			}
			list = append(list, r.info())
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("vault: list: %w", err)
	}
	return list, nil
}

// Reveal returns a value to a person, once that is on record.
func (v *Vault) Reveal(ctx context.Context, scope secrets.Scope, name string, version int64, by secrets.By) (palyra.Secret,
	secrets.Info, error,
) {
	if err := v.permit(ctx, by, "vault.get", scope, name); err != nil {
		return palyra.Secret{}, secrets.Info{}, err
	}
	value, info, err := v.Get(ctx, scope, name, version)
	if err != nil {
		return value, info, err
	}
	err = v.DB.Write(ctx, "vault.get", func(tx *store.Tx) error {
		m, err := readManifest(tx)
		if err != nil {
			return err
		}
		_, err = v.Journal.Append(tx, palyra.VaultChanged{
			Action: "vault.get", Scope: string(scope), Name: name, Version: info.Version, Counter: m.counter, Keeper: m.keeper, Key: m.key,
			By: by.Principal, Signature: by.Signature,
		})
		return err
	})
	if err != nil {
		value.Destroy()
		return palyra.Secret{}, secrets.Info{}, fmt.Errorf("vault: get: %w", err)
	}
	return value, info, nil
}
