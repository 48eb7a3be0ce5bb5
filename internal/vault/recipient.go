package vault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/store"
)

// recipients are for whom things are sealed.
type recipients struct {
	sync.Mutex                   // taken before the vault's
	known      map[string]string // that an open vault had, and vouches for
	asked      time.Time         // when the keeper of a locked vault was asked last
	why        error             // what it said

	use     sync.Mutex                     // of what follows; taken last
	written map[string]map[string]struct{} // that were used while the vault was locked, as they were written, by name
}

// askAgain is how long a keeper that refused is not asked again for a recipient: calls wait for that.
const askAgain = 5 * time.Second

// recipient is for whom something is sealed. It is made when it is first asked for, which takes an open vault; later it
// is known while the vault is locked, too. Only what an open vault had is remembered.
func (v *Vault) recipient(ctx context.Context, name string) (string, error) {
	r := &v.recipients
	r.Lock()
	defer r.Unlock()
	if known := r.known[name]; known != "" {
		return known, nil
	}
	if since := v.Now().Sub(r.asked); r.why != nil && since >= 0 && since < askAgain && !v.isOpen() {
		return v.writtenRecipient(ctx, name, r.why)
	}
	found, err := v.findRecipient(ctx, name)
	if err == nil {
		if r.known == nil {
			r.known = map[string]string{}
		}
		r.known[name], r.why = found, nil
		return found, nil
	}
	if palyra.AsError(err).Reason == palyra.ReasonVaultDamaged {
		return "", err
	}
	r.asked, r.why = v.Now(), err
	return v.writtenRecipient(ctx, name, err)
}

func (v *Vault) isOpen() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.held != nil
}

// findRecipient asks an open vault, and makes one where there is none.
func (v *Vault) findRecipient(ctx context.Context, name string) (string, error) {
	h, err := v.hold(ctx)
	if err == nil {
		found := h.recipients[name]
		v.mu.RUnlock()
		if found != "" {
			return found, nil
		}
	}
	if err != nil && !errors.Is(err, errNone) {
		return "", err
	}
	identity, found, err := agefile.Pair()
	if err != nil {
		return "", err
	}
	value := palyra.NewSecret(identity)
	defer value.Destroy()
	err = v.change(ctx, "vault.put", daemonItself, func(tx *store.Tx, c *change) error {
		return errors.Join(v.putOwn(tx, c, name, value), c.putRecipient(tx, name, found))
	})
	return found, err
}

// writtenRecipient is the recipient of a vault that is locked, and cannot be asked whether it is its own: whoever could
// have changed it can write to the state. It is compared when the vault is open. Where there is none the error is why the
// vault is locked.
func (v *Vault) writtenRecipient(ctx context.Context, name string, why error) (found string, err error) {
	err = v.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get(`SELECT recipient FROM vault_recipients WHERE name=?`, []any{name}, &found)
	})
	if errors.Is(err, store.ErrNoRows) {
		return "", why
	}
	if err != nil {
		return "", fmt.Errorf("vault: recipient: %w", err)
	}
	v.recipients.noteUse(name, found)
	v.mu.RLock() // it may have been opened since it was asked
	defer v.mu.RUnlock()
	if v.held != nil {
		v.compareUsed(ctx, v.held)
	}
	return found, nil
}

// mostUsed is how many exchanged recipients are told apart.
const mostUsed = 64

// noteUse remembers that something was sealed for a recipient that nobody vouched for.
func (r *recipients) noteUse(name, recipient string) {
	r.use.Lock()
	defer r.use.Unlock()
	if r.written == nil {
		r.written = map[string]map[string]struct{}{}
	}
	if r.written[name] == nil {
		r.written[name] = map[string]struct{}{}
	}
	if len(r.written[name]) < mostUsed {
		r.written[name][recipient] = struct{}{}
	}
}

// compareUsed raises an alert where something was sealed for a recipient that is not the open vault's. What could not be
// put on record is compared again when the vault is opened again. v.mu is held, by a reader at least.
func (v *Vault) compareUsed(ctx context.Context, h *held) {
	r := &v.recipients
	r.use.Lock()
	defer r.use.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.written)) {
		others := r.written[name]
		delete(others, h.recipients[name])
		if len(others) > 0 {
			v.Log.Error("what calls replaced was sealed for a recipient that is not the vault's: whoever exchanged it can write to the state, "+
				"and can open that; nobody else can", "recipient", name, "others", len(others))
			err := v.DB.Write(context.WithoutCancel(ctx), "alert.raised", func(tx *store.Tx) error {
				_, err := v.Journal.Append(tx, palyra.AlertRaised{
					Reason: palyra.ReasonVaultDamaged, Principal: palyra.SystemDaemon, PeerUID: -1, Method: "vault.recipient " + name,
					Count: int64(len(others)),
				})
				return err
			})
			if err != nil {
				v.Log.Error("an exchanged recipient could not be put on record", "recipient", name, "err", err)
				continue
			}
		}
		delete(r.written, name)
	}
}

// forgetRecipients has them looked up again: another vault may be there now.
func (v *Vault) forgetRecipients() {
	r := &v.recipients
	r.Lock()
	defer r.Unlock()
	r.known, r.why = nil, nil
}

// forgetUsed is for a vault that another took the place of: its recipients are nobody's any more.
func (r *recipients) forgetUsed() {
	r.use.Lock()
	defer r.use.Unlock()
	r.written = nil
}
