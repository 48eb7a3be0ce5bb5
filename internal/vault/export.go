package vault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/store"
	"palyra/secrets"
)

// Export writes everything that the vault holds behind a passphrase, and returns how many versions those are. It is on
// record when Export returns: until then what was written is not to be given to anybody. Whoever has the passphrase
// can read all of it, also what is for other people only: without everyone such a vault is not exported, and with it
// an owner's only.
func (v *Vault) Export(ctx context.Context, to io.Writer, passphrase palyra.Secret, everyone bool, by secrets.By) (int64, error) {
	err := passphrase.Use(func(pass []byte) error {
		if len(pass) < agefile.MinPassphrase {
			return invalid("a passphrase needs %d characters or more; nothing was exported", agefile.MinPassphrase)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	h, err := v.hold(ctx)
	if err != nil && !errors.Is(err, errNone) {
		return 0, err
	}
	if err == nil {
		defer v.mu.RUnlock()
	}
	if err != nil || secretLeaves(h.leaves) == 0 {
		return 0, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the vault is empty: there is nothing to export").
			WithRemedy("put a secret: palyra vault put NAME")
	}
	all := slices.SortedFunc(maps.Keys(h.leaves), ident.compare)
	all = slices.DeleteFunc(all, func(i ident) bool { return !i.isRow() || i.scope == ownScope })
	for _, i := range all {
		if err := v.permitExport(ctx, i, everyone, by); err != nil {
			return 0, err
		}
	}
	for _, b := range h.bindings {
		if err := v.permitExport(ctx, ident{string(b.Scope), b.Secret, 0}, everyone, by); err != nil {
			return 0, err
		}
	}
	head := exportHead{
		Format: exportFormat, Version: exportVersion, By: by.Principal, At: v.Now().UTC(), Versions: int64(len(all)),
		Bindings: int64(len(h.bindings)),
	}
	if err := v.writeExport(ctx, to, passphrase, head, h); err != nil {
		return 0, fmt.Errorf("vault: export: %w", err)
	}
	mode := ""
	if everyone {
		mode = "everyone"
	}
	err = v.DB.Write(ctx, "vault.export", func(tx *store.Tx) error {
		_, err := v.Journal.Append(tx, palyra.VaultChanged{
			Action: "vault.export", Versions: head.Versions, Mode: mode, Counter: h.counter, Keeper: h.keeper, Key: h.key,
			By: by.Principal, Signature: by.Signature,
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("vault: export: %w", err)
	}
	return head.Versions, nil
}

// permitExport refuses to export what its caller may not be shown.
func (v *Vault) permitExport(ctx context.Context, i ident, everyone bool, by secrets.By) error {
	whose, foreign := others(secrets.Scope(i.scope), by.Principal)
	switch {
	case foreign && !everyone:
		return palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the secret %s is for %s only", i.name, palyra.Clip(whose, 128)).
			WithRemedy("an owner can export what is for other people, too, and it is on record: palyra vault export --everyone; whoever has " +
				"the passphrase can then read it")
	case foreign && by.Role != palyra.RoleOwner:
		return ownerOnly("export what is for other people only")
	}
	return v.judge(ctx, by, "vault.get", secrets.Scope(i.scope), i.name)
}

func ownerOnly(what string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "only an owner may %s", what).WithRemedy("have an owner do it")
}

// writeExport writes the file.
func (v *Vault) writeExport(ctx context.Context, to io.Writer, passphrase palyra.Secret, head exportHead, h *held) error {
	buffer := bufio.NewWriter(to)
	err := passphrase.Use(func(pass []byte) error {
		w, err := agefile.NewWriter(buffer, pass)
		if err != nil {
			return err
		}
		if err := v.writeLines(ctx, w, head, h); err != nil {
			return err
		}
		return w.Close()
	})
	if err != nil {
		return err
	}
	return buffer.Flush()
}

func (v *Vault) writeLines(ctx context.Context, w io.Writer, head exportHead, h *held) error {
	if err := writeLine(w, head); err != nil {
		return err
	}
	n := int64(0)
	err := v.DB.Read(ctx, func(tx *store.Tx) error {
		query := `SELECT ` + rowColumns + `, sealed FROM vault_secrets WHERE scope<>'daemon' ORDER BY scope, name, version`
		return tx.Each(query, nil, func(scan func(...any) error) error {
			var r row
			if err := scan(append(r.places(), &r.sealed)...); err != nil {
				return damaged("a secret is kept as no secret can be").WithCause(err)
			}
			n++
			return h.writeVersion(w, r)
		})
	})
	if err == nil && n != head.Versions {
		err = damaged("secrets were added or removed outside of Palyra")
	}
	for _, name := range slices.Sorted(maps.Keys(h.bindings)) {
		if err == nil {
			err = writeLine(w, h.bindings[name])
		}
	}
	return err
}

// writeVersion writes one version, also one that is past its time.
func (h *held) writeVersion(w io.Writer, r row) error {
	if known, ok := h.leaves[r.ident]; !ok || known != r.leaf() {
		return r.damaged("it is not the one that was put")
	}
	value, err := r.open(h.keys)
	if err != nil {
		return err
	}
	defer value.Destroy()
	return value.Use(func(b []byte) error { return writeLine(w, exportLine{Info: r.info(), Value: b}) })
}
