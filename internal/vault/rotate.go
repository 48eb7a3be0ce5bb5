package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

// Rotate wraps every data key under a new vault key, held by the keeper of that name, or by the same one; the values
// stay as they are. The old key is then forgotten.
func (v *Vault) Rotate(ctx context.Context, keeper string, passphrase palyra.Secret, by secrets.By) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, err := v.open(ctx, palyra.Secret{})
	if errors.Is(err, errNone) {
		if h, err = v.begin(ctx, cmp.Or(keeper, v.First), passphrase); err == nil {
			err = v.apply(ctx, h, "vault.rotate", by, func(*store.Tx, *change) error { return nil })
		}
		return err
	}
	if err != nil {
		return err
	}
	if keeper == "" {
		keeper = h.keeper
	}
	id, keys, err := v.newVaultKey(ctx, keeper, passphrase)
	if err != nil {
		return err
	}
	err = v.apply(ctx, h, "vault.rotate", by, func(tx *store.Tx, c *change) error { return c.rewrap(tx, id, keeper, keys) })
	if err != nil {
		keys.destroy()
		return err
	}
	h.keys.destroy()
	v.tidy(ctx)
	return nil
}

// rewrap puts every data key under other keys.
func (c *change) rewrap(tx *store.Tx, id, keeper string, keys derived) error {
	var all []row
	err := tx.Each(`SELECT `+rowColumns+` FROM vault_secrets`, nil, func(scan func(...any) error) error {
		var r row
		err := scan(r.places()...)
		all = append(all, r)
		return err
	})
	if err != nil {
		return err
	}
	if len(all) != rowLeaves(c.leaves) {
		return damaged("secrets were added or removed outside of Palyra")
	}
	for _, r := range all {
		if c.leaves[r.ident] != r.leaf() {
			return r.damaged("it is not the one that was put")
		}
		data, err := r.unwrap(c.keys)
		if err != nil {
			return err
		}
		r.vaultKey = id
		err = r.wrap(data, keys)
		data.Destroy()
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE vault_secrets SET vault_key=?, wrapped=? WHERE scope=? AND name=? AND version=?`,
			r.vaultKey, r.wrapped, r.scope, r.name, r.version); err != nil {
			return err
		}
		c.leaves[r.ident] = r.leaf()
	}
	c.key, c.keeper, c.keys = id, keeper, keys
	return nil
}

// begin makes the key of a vault that has none. The vault is there with its first change.
func (v *Vault) begin(ctx context.Context, keeper string, passphrase palyra.Secret) (*held, error) {
	if counter, err := v.counter(ctx); err != nil || counter > 0 {
		return nil, errors.Join(err, damaged(fmt.Sprintf("it is empty, and the journal is at change %d", counter)))
	}
	id, keys, err := v.newVaultKey(ctx, keeper, passphrase)
	if err != nil {
		return nil, err
	}
	m := manifest{key: id, keeper: keeper}
	return newHeld(m, keys), nil
}

// newVaultKey has a keeper hold a new key. Its id is on record before: a key that comes to nothing is forgotten later.
func (v *Vault) newVaultKey(ctx context.Context, keeper string, passphrase palyra.Secret) (id string, keys derived, err error) {
	k := v.Keepers[keeper]
	if k == nil {
		return "", keys, invalid("there is no keeper %q here", palyra.Clip(keeper, 64)).WithRemedy("see 'palyra vault status'")
	}
	id = string(v.NewID())
	if err := v.listKey(ctx, id, keeper); err != nil {
		return "", keys, fmt.Errorf("vault: new key: %w", err)
	}
	key := newKey()
	defer key.Destroy()
	if err := k.Save(ctx, id, key, passphrase); err != nil {
		if never := (interface{ Unreached() bool })(nil); errors.As(err, &never) && never.Unreached() { // there is nothing to forget later
			err = errors.Join(err, v.unlistKey(ctx, id))
		}
		return "", keys, err
	}
	keys, err = derive(key)
	return id, keys, err
}

// listKey puts a key on the list of those that keepers may hold.
func (v *Vault) listKey(ctx context.Context, id, keeper string) error {
	return v.DB.Write(ctx, "vault.key", func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO vault_keys (id, keeper) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET keeper=excluded.keeper`, id, keeper)
		return err
	})
}

// unlistKey takes a key off that list.
func (v *Vault) unlistKey(ctx context.Context, id string) error {
	return v.DB.Write(ctx, "vault.key", func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM vault_keys WHERE id=?`, id)
		return err
	})
}

// tidy has keepers forget keys that are not the vault's. What fails is tried again when it is opened the next time.
func (v *Vault) tidy(ctx context.Context) {
	var ids, keepers []string
	listed := false
	err := v.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT id, keeper FROM vault_keys`, nil, func(scan func(...any) error) error {
			var id, keeper string
			err := scan(&id, &keeper)
			if id == v.held.key && keeper == v.held.keeper {
				listed = true
				return err
			}
			ids, keepers = append(ids, id), append(keepers, keeper)
			return err
		})
	})
	if err == nil && !listed {
		err = v.listKey(ctx, v.held.key, v.held.keeper)
	}
	for i, id := range ids {
		k := v.Keepers[keepers[i]]
		var e error
		switch {
		case id == v.held.key: // somebody wrote another keeper to it
			continue
		case !validKeyID.MatchString(id): // no key of ours was ever called that
		case k == nil:
			continue
		default:
			e = k.Forget(ctx, id)
		}
		if e == nil {
			e = v.unlistKey(ctx, id)
		}
		err = errors.Join(err, e)
	}
	if err != nil {
		v.Log.Warn("a key that the vault no longer uses is not forgotten yet", "err", err)
	}
}

// Status is how the vault is.
func (v *Vault) Status(ctx context.Context) (secrets.Status, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := secrets.Status{Keeper: v.First, State: secrets.Empty}
	s.Keepers = slices.Sorted(maps.Keys(v.Keepers))
	m, on, err := v.load(ctx)
	switch {
	case errors.Is(err, errNone):
		if n, err := v.counter(ctx); err != nil || n == 0 {
			return s, err
		}
		err = damaged("it is empty, and the journal says that it was not")
		fallthrough
	case err != nil && palyra.CodeOf(err) != palyra.Internal:
		e := palyra.AsError(err)
		s.State, s.Why, s.Remedy = secrets.Damaged, e.Text, e.Remedy
		return s, nil
	case err != nil:
		return s, err
	}
	s.Keeper, s.Key, s.Counter, s.Versions, s.State = m.keeper, m.key, m.counter, int64(secretLeaves(on.leaves)), secrets.Open
	s.Bindings = int64(len(on.bindings))
	if _, err := v.open(ctx, palyra.Secret{}); err != nil {
		e := palyra.AsError(err)
		s.Why, s.Remedy, s.State = e.Text, e.Remedy, secrets.Locked
		if e.Reason == palyra.ReasonVaultDamaged {
			s.State = secrets.Damaged
		}
	}
	return s, nil
}
