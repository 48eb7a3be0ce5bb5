package vault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

// movedPrefix begins the names of keys that came into the vault by command. The vault's own are called otherwise.
const movedPrefix = "key-"

// OwnKeys keeps private keys of the daemon's that an operator moved into the vault, each under a name.
type OwnKeys struct {
	v  *Vault
	by secrets.By

	mu    sync.Mutex
	asked time.Time // when the keeper of a locked vault was asked last
	why   error     // what it said
}

// OwnKeys returns the vault as a place for the daemon's keys. What is changed there is on record as done by somebody.
func (v *Vault) OwnKeys(by palyra.Principal, sig palyra.Signature) *OwnKeys {
	return &OwnKeys{v: v, by: secrets.By{Principal: by, Signature: sig}}
}

// DaemonKeys is OwnKeys for what the daemon does by itself.
func (v *Vault) DaemonKeys() *OwnKeys { return &OwnKeys{v: v, by: daemonItself} }

// Has reports whether the tables have a key of that name, also while the vault is locked: then nobody vouches for it.
func (o *OwnKeys) Has(ctx context.Context, name string) (bool, error) {
	var n int64
	err := o.v.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get(`SELECT count(*) FROM vault_secrets WHERE scope=? AND name=?`, []any{ownScope, movedPrefix + name}, &n)
	})
	if err != nil {
		return false, fmt.Errorf("vault: own keys: %w", err)
	}
	return n > 0, nil
}

// Load returns a key: NotFound where there is none. A keeper that refused is not asked again at once, as calls wait for it.
func (o *OwnKeys) Load(ctx context.Context, name string) (palyra.Secret, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if since := o.v.Now().Sub(o.asked); o.why != nil && since >= 0 && since < askAgain && !o.v.isOpen() {
		return palyra.Secret{}, o.why
	}
	key, err := o.v.own(ctx, movedPrefix+name)
	o.asked, o.why = o.v.Now(), nil
	if err != nil && palyra.CodeOf(err) != palyra.NotFound {
		o.why = err
	}
	return key, err
}

// Store keeps a key in the place of one before; it is there after a power cut too.
func (o *OwnKeys) Store(ctx context.Context, name string, key palyra.Secret) error {
	return o.v.change(ctx, "vault.put", o.by, func(tx *store.Tx, c *change) error { return o.v.putOwn(tx, c, movedPrefix+name, key) })
}

// Remove forgets a key, or one that it never had.
func (o *OwnKeys) Remove(ctx context.Context, name string) error {
	if there, err := o.Has(ctx, name); err != nil || !there {
		return err
	}
	name = movedPrefix + name
	return o.v.change(ctx, "vault.delete", o.by, func(tx *store.Tx, c *change) error {
		for _, i := range slices.Collect(maps.Keys(c.leaves)) {
			if i.scope != ownScope || i.name != name {
				continue
			}
			if err := c.remove(tx, i); err != nil {
				return err
			}
		}
		c.event.Scope, c.event.Name = ownScope, name
		return nil
	})
}

// keepsKeys refuses to begin anew where the vault that is there holds keys of the daemon's and does not open: they would
// be lost.
func (v *Vault) keepsKeys(ctx context.Context) error {
	var names []string
	err := v.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT name FROM vault_secrets WHERE scope=? ORDER BY name`, []any{ownScope}, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			if use, ok := strings.CutPrefix(name, movedPrefix); ok {
				names = append(names, use)
			}
			return err
		})
	})
	if err != nil || len(names) == 0 {
		return err
	}
	h, why := v.open(ctx, palyra.Secret{})
	for i := 0; why == nil && i < len(names); i++ {
		var key palyra.Secret
		key, why = v.ownOf(ctx, h, movedPrefix+names[i])
		key.Destroy()
	}
	if why == nil {
		return nil
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonVaultLocked, "the vault holds keys of the daemon's (%s) and does not "+
		"give them: they would be lost with it", palyra.Clip(strings.Join(names, ", "), 200)).WithCause(why).
		WithRemedy("open it: palyra vault unlock; or restore the state from a backup; without both, begin a new state on purpose " +
			"(palyra down && palyra up --new-state) and import there")
}
