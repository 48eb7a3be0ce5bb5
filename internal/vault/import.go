package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

// importing is an import on its way. The file is read three times, a version at a time: to check it, to compare it
// with what the vault has, and to keep it.
type importing struct {
	*Vault
	ctx  context.Context // of the import, which it does not outlive
	text *io.SectionReader
	mode secrets.ImportMode
	by   secrets.By
	out  secrets.Imported
	fate map[ident]fate // of each secret
	// the bindings of the export
	bindings []secrets.Binding
}

// fate is what becomes of a secret of an export.
type fate int

const (
	added    fate = iota
	same          // the vault has every version of it
	differs       // the vault has it otherwise
	replaced      // by the export's
)

// Import takes the secrets of an export into the vault, with who put them and when as the file has it: all of them or
// none. A secret that the vault does not have is added. One of which it has every version that the export has is left
// as it is. Any other is a matter of the mode.
func (v *Vault) Import(ctx context.Context, file io.ReaderAt, size int64, passphrase palyra.Secret, mode secrets.ImportMode,
	by secrets.By,
) (secrets.Imported, error) {
	switch mode {
	case secrets.Add, secrets.Replace:
	case secrets.Anew:
		if by.Role != palyra.RoleOwner {
			return secrets.Imported{}, ownerOnly("begin the vault anew")
		}
	default:
		return secrets.Imported{}, invalid("%q is no way to import", palyra.Clip(string(mode), 64))
	}
	text, err := openExport(file, size, passphrase)
	if err != nil {
		return secrets.Imported{}, err
	}
	in := &importing{Vault: v, ctx: ctx, text: text, mode: mode, by: by, fate: map[ident]fate{}}
	if err := in.read(in.permitVersion, in.permitBinding); err != nil {
		return secrets.Imported{}, err
	}
	if mode == secrets.Anew {
		err = in.anew()
		v.forgetRecipients()
	} else {
		err = v.change(ctx, "vault.import", by, in.merge)
	}
	if err != nil {
		return secrets.Imported{}, err
	}
	return in.out, nil
}

// each reads the export from its beginning.
func (in *importing) each(f func(exportLine) error) error {
	return in.read(f, func(secrets.Binding) error { return nil })
}

func (in *importing) read(f func(exportLine) error, bound func(secrets.Binding) error) error {
	return readExport(io.NewSectionReader(in.text, 0, in.text.Size()), f, bound)
}

// permitBinding takes a binding in, unless the caller may not bind that secret: it takes the right to see it, as Bind
// does, for whoever made the file says where the value goes.
func (in *importing) permitBinding(b secrets.Binding) (err error) {
	if whose, foreign := others(b.Scope, in.by.Principal); foreign && in.by.Role != palyra.RoleOwner {
		return ownerOnly("import what is for " + palyra.Clip(whose, 128) + " only")
	}
	for _, action := range []string{"vault.put", "vault.get"} {
		if err := in.judge(in.ctx, in.by, action, b.Scope, b.Subject()); err != nil {
			return err
		}
	}
	if b.Hosts, err = in.Hosts(b.Hosts); err != nil {
		return err
	}
	in.bindings = append(in.bindings, b)
	return nil
}

// bind keeps the bindings that come in. One that the vault has otherwise is a matter of the mode.
func (in *importing) bind(tx *store.Tx, c *change) error {
	for _, b := range in.bindings {
		record, err := json.Marshal(b)
		if err != nil {
			return fmt.Errorf("vault: import: %w", err)
		}
		was, known := c.bindings[b.Name]
		have, err := json.Marshal(was)
		switch {
		case err != nil:
			return fmt.Errorf("vault: import: %w", err)
		case known && bytes.Equal(have, record):
			continue
		case known && in.mode != secrets.Replace:
			return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the vault has the binding %s, and not as the export has it", b.Name).
				WithRemedy("unbind it, or have the export take its place: palyra vault import --replace FILE; nothing was imported")
		case known:
			if err := in.judge(in.ctx, in.by, "vault.delete", was.Scope, was.Subject()); err != nil {
				return err
			}
		}
		if err := c.bind(tx, b, record); err != nil {
			return err
		}
		in.out.Bindings++
	}
	if len(c.bindings) > secrets.MaxBindings {
		return tooManyBindings()
	}
	return nil
}

// permitVersion refuses a secret that the caller may not put.
func (in *importing) permitVersion(l exportLine) error {
	if _, known := in.fate[l.secret()]; known {
		return nil
	}
	in.fate[l.secret()] = added
	if whose, foreign := others(l.Scope, in.by.Principal); foreign && in.by.Role != palyra.RoleOwner {
		return ownerOnly("import what is for " + palyra.Clip(whose, 128) + " only")
	}
	return in.judge(in.ctx, in.by, "vault.put", l.Scope, l.Name)
}

// merge takes the export into a vault that has something.
func (in *importing) merge(tx *store.Tx, c *change) error {
	have := map[ident]bool{}
	for i := range c.leaves {
		have[ident{i.scope, i.name, 0}] = true
	}
	if err := in.each(func(l exportLine) error { return in.compare(tx, c, l, have[l.secret()]) }); err != nil {
		return err
	}
	for _, s := range slices.SortedFunc(maps.Keys(in.fate), ident.compare) {
		switch {
		case in.fate[s] != differs:
		case in.mode != secrets.Replace:
			return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the vault has %s in %s, and not as the export has it", s.name, s.scope).
				WithRemedy("delete it, or have the export take its place: palyra vault import --replace FILE; nothing was imported")
		default:
			in.fate[s] = replaced
		}
	}
	for i := range c.leaves {
		if in.fate[ident{i.scope, i.name, 0}] == replaced {
			if err := c.remove(tx, i); err != nil {
				return err
			}
		}
	}
	return in.keep(tx, c)
}

// compare finds out whether the vault has a version. Whoever may not be shown a secret is not told whether they know
// its value: to them it differs.
func (in *importing) compare(tx *store.Tx, c *change, l exportLine, have bool) error {
	s := l.secret()
	switch {
	case !have || in.fate[s] == differs:
		return nil
	case in.permit(in.ctx, in.by, "vault.get", l.Scope, l.Name) != nil:
		in.fate[s] = differs
		return nil
	}
	in.fate[s] = same
	known, ok := c.leaves[l.ident()]
	if !ok {
		in.fate[s] = differs
		return nil
	}
	r, err := row{ident: l.ident()}.fetch(tx)
	if err != nil {
		return err
	}
	if known != r.leaf() {
		return r.damaged("it is not the one that was put")
	}
	value, err := r.open(c.keys)
	if err != nil {
		return err
	}
	defer value.Destroy()
	return value.Use(func(b []byte) error {
		if !bytes.Equal(b, l.Value) || r.expires != store.Nanos(l.ExpiresAt) || r.unmasked != flag(l.Unmasked) {
			in.fate[s] = differs
		}
		return nil
	})
}

// keep keeps the versions that come in.
func (in *importing) keep(tx *store.Tx, c *change) error {
	counted := map[ident]bool{}
	err := in.each(func(l exportLine) error {
		s := l.secret()
		count := map[fate]*int64{added: &in.out.Added, replaced: &in.out.Replaced, same: &in.out.Same}[in.fate[s]]
		if !counted[s] {
			counted[s] = true
			*count++
		}
		if in.fate[s] == same {
			return nil
		}
		in.out.Versions++
		r := row{
			ident: l.ident(), dataKey: string(in.NewID()), vaultKey: c.key, unmasked: flag(l.Unmasked), by: l.CreatedBy,
			created: store.Nanos(l.CreatedAt), expires: store.Nanos(l.ExpiresAt),
		}
		value := palyra.NewSecret(bytes.Clone(l.Value))
		defer value.Destroy()
		if err := r.seal(value, c.keys); err != nil {
			return err
		}
		c.leaves[r.ident] = r.leaf()
		return insert(tx, r)
	})
	if err != nil {
		return err
	}
	if err := in.bind(tx, c); err != nil {
		return err
	}
	c.event.Versions, c.event.Mode, in.out.Keeper = in.out.Versions, string(in.mode), c.keeper
	return c.fits()
}

// anew begins the vault again, whatever is there: under a new key, where the journal's counter is. What the vault had is
// gone, and its keys are forgotten.
func (in *importing) anew() error {
	v := in.Vault
	v.mu.Lock()
	defer v.mu.Unlock()
	counter, err := v.counter(in.ctx)
	if err != nil {
		return err
	}
	if err := v.keepsKeys(in.ctx); err != nil {
		return err
	}
	own, recipients := v.carryOwn(in.ctx) // before there is another key: to open it forgets those that are not its own
	defer destroyAll(own)
	id, keys, err := v.newVaultKey(in.ctx, v.First, palyra.Secret{})
	if err != nil {
		return err
	}
	before := v.held
	h := newHeld(manifest{counter: counter, key: id, keeper: v.First}, keys)
	h.anew = true
	err = v.apply(in.ctx, h, "vault.import", in.by, func(tx *store.Tx, c *change) error {
		for _, table := range []string{"vault_secrets", "vault_bindings", "vault_recipients", "vault_manifest"} {
			if _, err := tx.Exec(`DELETE FROM ` + table); err != nil {
				return err
			}
		}
		return errors.Join(v.takeOwn(tx, c, own, recipients), in.keep(tx, c))
	})
	if err != nil {
		keys.destroy()
		return err
	}
	if before != nil {
		before.keys.destroy()
	}
	v.recipients.forgetUsed()
	v.tidy(in.ctx)
	return nil
}
