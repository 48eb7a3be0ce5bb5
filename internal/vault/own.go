package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/store"
	"palyra/secrets"
)

// ownScope is the scope of the daemon's own keys. No secret of anybody's is in it: it is none that secrets.CheckName
// lets pass. They are not listed, not exported, and nobody is shown them.
const ownScope = "daemon"

// recipientScope is the scope under which the manifest has recipients.
const recipientScope = "recipient"

// kindRecipient is the digest of a recipient in the manifest.
const kindRecipient = "palyra vault: recipient 1"

func recipientIdent(name string) ident { return ident{recipientScope, name, 1} }

func recipientLeaf(name, recipient string) leaf {
	return sha256.Sum256(encode(kindRecipient, name, recipient))
}

// daemonItself is who keeps the daemon's own keys.
var daemonItself = secrets.By{Principal: palyra.SystemDaemon, Role: palyra.RoleOwner}

// loadRecipients adds the recipients' leaves, and returns them.
func loadRecipients(tx *store.Tx, leaves map[ident]leaf) (map[string]string, error) {
	all := map[string]string{}
	err := tx.Each(`SELECT name, recipient FROM vault_recipients`, nil, func(scan func(...any) error) error {
		var name, recipient string
		if err := scan(&name, &recipient); err != nil {
			return damaged("a recipient is kept as none can be").WithCause(err)
		}
		all[name], leaves[recipientIdent(name)] = recipient, recipientLeaf(name, recipient)
		return nil
	})
	return all, err
}

// own returns a key of the daemon's own.
func (v *Vault) own(ctx context.Context, name string) (palyra.Secret, error) {
	h, err := v.hold(ctx)
	if errors.Is(err, errNone) {
		err = noOwn(name)
	}
	if err != nil {
		return palyra.Secret{}, err
	}
	defer v.mu.RUnlock()
	return v.ownOf(ctx, h, name)
}

func noOwn(name string) *palyra.Error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the vault does not hold the key %s of the daemon", name)
}

// ownOf is own for an open vault, which nobody changes meanwhile.
func (v *Vault) ownOf(ctx context.Context, h *held, name string) (palyra.Secret, error) {
	r := row{ident: ident{ownScope, name, h.last(ownScope, name)}}
	if _, ok := h.leaves[r.ident]; !ok {
		return palyra.Secret{}, noOwn(name)
	}
	err := v.DB.Read(ctx, func(tx *store.Tx) (err error) {
		r, err = r.fetch(tx)
		return err
	})
	if err != nil {
		return palyra.Secret{}, err
	}
	return v.read(h, r)
}

// putOwn keeps a key of the daemon's own, in the place of one before.
func (v *Vault) putOwn(tx *store.Tx, c *change, name string, value palyra.Secret) error {
	r := row{
		ident: ident{ownScope, name, c.last(ownScope, name) + 1}, dataKey: string(v.NewID()), vaultKey: c.key,
		by: palyra.SystemDaemon, created: v.Now().UnixNano(),
	}
	if err := r.seal(value, c.keys); err != nil {
		return err
	}
	for i := range maps.Clone(c.leaves) {
		if i.scope == ownScope && i.name == name {
			if err := c.remove(tx, i); err != nil {
				return err
			}
		}
	}
	c.leaves[r.ident] = r.leaf()
	c.event.Scope, c.event.Name, c.event.Version = ownScope, name, r.version
	return insert(tx, r)
}

// putRecipient keeps a recipient in the place of one before.
func (c *change) putRecipient(tx *store.Tx, name, recipient string) error {
	c.recipients[name], c.leaves[recipientIdent(name)] = recipient, recipientLeaf(name, recipient)
	_, err := tx.Exec(`INSERT INTO vault_recipients (name, recipient) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET recipient=excluded.recipient`, name, recipient)
	return err
}

// Sealer seals for a recipient of the vault's: that takes no key. To open takes the identity, which the vault keeps.
type Sealer struct {
	v    *Vault
	name string
}

// UndoSealer seals what calls replaced.
func (v *Vault) UndoSealer() *Sealer { return &Sealer{v, "undo"} }

// Ready says why nothing can be sealed.
func (s *Sealer) Ready() error {
	_, err := s.v.recipient(context.Background(), s.name)
	return err
}

// Seal returns a writer of what only the vault opens.
func (s *Sealer) Seal(to io.Writer) (io.WriteCloser, error) {
	recipient, err := s.v.recipient(context.Background(), s.name)
	if err != nil {
		return nil, err
	}
	return agefile.SealFor(to, recipient)
}

// Open returns what was sealed.
func (s *Sealer) Open(from io.Reader) (out io.Reader, err error) {
	identity, err := s.v.own(context.Background(), s.name)
	if palyra.CodeOf(err) == palyra.NotFound {
		return nil, lost()
	}
	if err != nil {
		return nil, err
	}
	defer identity.Destroy()
	err = identity.Use(func(id []byte) (err error) {
		out, err = agefile.OpenBy(from, id)
		return err
	})
	if errors.Is(err, agefile.ErrOther) {
		return nil, lost()
	}
	if err != nil {
		return nil, damaged("what it sealed does not open: it was changed").WithCause(err)
	}
	return out, nil
}

// lost is the error of what nobody can open any more.
func lost() *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked,
		"it is sealed under a key that the vault has no more: the vault was begun anew since").
		WithRemedy("restore the state with its vault from a backup; without one, forget it: palyra undo --forget CALL")
}

// carryOwn are the daemon's own keys of the vault that is there, for one that takes its place; none where it cannot be
// opened.
func (v *Vault) carryOwn(ctx context.Context) (keys map[string]palyra.Secret, recipients map[string]string) {
	h, err := v.open(ctx, palyra.Secret{})
	if err != nil {
		return nil, nil
	}
	keys = map[string]palyra.Secret{}
	for i := range h.leaves {
		if i.scope != ownScope {
			continue
		}
		key, err := v.ownOf(ctx, h, i.name)
		if err != nil {
			v.Log.Warn("a key of the daemon's is lost with the vault that it was in", "key", i.name, "err", err)
			continue
		}
		keys[i.name] = key
	}
	return keys, h.recipients
}

// takeOwn keeps the daemon's own keys of the vault before.
func (v *Vault) takeOwn(tx *store.Tx, c *change, keys map[string]palyra.Secret, recipients map[string]string) error {
	event := c.event
	for name, key := range keys {
		if err := v.putOwn(tx, c, name, key); err != nil {
			return err
		}
		if of := recipients[name]; of != "" {
			if err := c.putRecipient(tx, name, of); err != nil {
				return err
			}
		}
	}
	c.event = event
	return nil
}

func destroyAll(keys map[string]palyra.Secret) {
	for _, key := range keys {
		key.Destroy()
	}
}
