package vault

import (
	"context"
	"fmt"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

// tellAll tells Known the values of an open vault: all versions, also what has expired. A value that does not open is
// passed over, because nobody is lent it either. Values that were removed meanwhile are not known any more.
func (v *Vault) tellAll(ctx context.Context, h *held) error {
	if v.Known == nil {
		return nil
	}
	v.told = len(h.leaves)
	var err error
	v.Known.Set(func(yield func(string, []byte) bool) {
		err = v.values(ctx, h, func(ident) bool { return true }, yield)
	})
	return err
}

// tellNew tells Known the values that a change brought. Those that it removed stay known for a while: they may still
// open something elsewhere. Where a value cannot be told the vault is locked, and lends nothing before it is opened.
func (v *Vault) tellNew(ctx context.Context, before, now *held) {
	fresh := 0
	for i := range now.leaves {
		if _, had := before.leaves[i]; !had {
			fresh++
		}
	}
	if v.Known == nil || fresh == 0 {
		return
	}
	var err error
	if v.told += fresh; v.told > 2*MaxSecrets {
		err = v.tellAll(ctx, now)
	} else {
		v.Known.Add(func(yield func(string, []byte) bool) {
			err = v.values(ctx, now, func(i ident) bool { _, had := before.leaves[i]; return !had }, yield)
		})
	}
	if err != nil {
		v.Log.Error("the vault is locked: what was put into it cannot be masked", "err", err)
		v.lock()
	}
}

// values yields the values that are to be masked, by their names.
func (v *Vault) values(ctx context.Context, h *held, want func(ident) bool, yield func(string, []byte) bool) error {
	var all []row
	err := v.DB.Read(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		all = nil
		return tx.Each(`SELECT `+rowColumns+`, sealed FROM vault_secrets`, nil, func(scan func(...any) error) error {
			var r row
			err := scan(append(r.places(), &r.sealed)...)
			if r.unmasked == 0 && want(r.ident) && h.leaves[r.ident] == r.leaf() {
				all = append(all, r)
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("vault: tell what is to be masked: %w", err)
	}
	for _, r := range all {
		value, err := r.open(h.keys)
		if err != nil {
			continue
		}
		more := true
		_ = value.Use(func(b []byte) error {
			more = yield(r.name, b)
			if key, err := secrets.ParseAWSKey(b); err == nil { // programs have its parts
				defer key.Destroy()
				for _, part := range []palyra.Secret{key.Secret, key.Token} {
					_ = part.Use(func(b []byte) error { more = more && (len(b) == 0 || yield(r.name, b)); return nil })
				}
			}
			return nil
		})
		if value.Destroy(); !more {
			break
		}
	}
	return nil
}
