package keyring

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/store"
)

const rotationDomain = "palyra/key-rotation/v1\x00"

// Attach gives the ring its journal and records the keys that are not on record yet.
func (r *Ring) Attach(ctx context.Context, journal store.Recorder) error {
	if err := r.take(ctx); err != nil {
		return err
	}
	defer r.release()
	var fresh []TrustKey
	r.mu.Lock()
	for _, k := range r.history {
		if !k.recorded {
			fresh = append(fresh, k)
		}
	}
	r.mu.Unlock()
	if len(fresh) > 0 {
		if err := r.announce(ctx, journal, fresh); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.history {
		r.history[i].recorded = true
	}
	r.journal = journal
	return nil
}

func (r *Ring) announce(ctx context.Context, journal store.Recorder, keys []TrustKey) error {
	err := r.cfg.DB.Write(ctx, palyra.KeyCreated{}.Kind(), func(tx *store.Tx) error {
		for _, k := range keys {
			if err := insert(tx, k); err != nil {
				return err
			}
			if _, err := journal.Append(tx, palyra.KeyCreated{Key: k.Key}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keyring: attach: %w", err)
	}
	return nil
}

// OnRotate registers f to be called as soon as a rotation is durable, with the
// key's use; Signer returns the new key by then. f must not rotate.
func (r *Ring) OnRotate(f func(use palyra.KeyUse)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, f)
}

// Rotate replaces the key of a use, in an order in which every crash can be told apart by the table afterwards:
//
//	the new key is staged beside the old      crash: the table knows nothing of it; it is dropped
//	table and journal say rotated             crash: the table names the staged key; it is moved into place
//	the staged file replaces the old one      crash: nothing is left to do
//
// It returns the new key.
func (r *Ring) Rotate(ctx context.Context, use palyra.KeyUse, by palyra.Principal) (palyra.Key, error) {
	if !slices.Contains(Uses(), use) {
		return palyra.Key{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "no key has the use %q", palyra.Clip(string(use), 40)).
			WithRemedy("the uses are %q", Uses())
	}
	if err := r.take(ctx); err != nil {
		return palyra.Key{}, err
	}
	defer r.release()
	if r.recorder() == nil {
		return palyra.Key{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonJournalUnavailable,
			"keys cannot be rotated before the journal is open")
	}
	if err := r.load(ctx, use); err != nil { // an earlier rotation may have failed half-way
		return palyra.Key{}, err
	}
	old := r.Signer(use)
	pl, err := r.place(use)
	if err != nil {
		return palyra.Key{}, err
	}
	if err := r.forgetCopy(use, pl); err != nil {
		return palyra.Key{}, err
	}
	next, err := r.stage(use, pl, old)
	if err != nil {
		return palyra.Key{}, err
	}
	r.point("key.staged/kept")
	key, err := r.commit(ctx, old, next, by)
	if err != nil {
		return palyra.Key{}, err // the staged file stays: load decides by the table
	}
	r.notifyUse(use)
	r.point("key.moved/lost")
	if err := pl.promote(); err != nil {
		return palyra.Key{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal,
			"the %s key is rotated, but its file could not be moved into place", use).
			WithRemedy("check %s; the next start moves it", pl.name()).WithCause(err)
	}
	r.point("key.moved/kept")
	return key, nil
}

func (r *Ring) stage(use palyra.KeyUse, pl place, old *Signer) (*Signer, error) {
	key, err := pl.stage()
	if err != nil {
		return nil, err
	}
	if key == nil || KeyID(public(key)) == old.KeyID() {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled,
			"the %s key is a credential of the service, which the daemon cannot replace", use).
			WithRemedy("add a new key as credential %s.key.next, restart the service and rotate again", use)
	}
	return newSigner(use, old.Name(), key), nil
}

// commit makes the rotation a fact. The new key signs from the moment of the
// commit on; the line itself still stands under the old one.
func (r *Ring) commit(ctx context.Context, old, next *Signer, by palyra.Principal) (palyra.Key, error) {
	now := r.cfg.Now().UTC()
	key := next.key(now)
	msg, err := rotationMessage(old.KeyID(), key)
	if err != nil {
		return palyra.Key{}, err
	}
	raw, err := old.Sign(msg)
	if err != nil {
		return palyra.Key{}, fmt.Errorf("keyring: rotate: %w", err)
	}
	entry := TrustKey{Key: key, SignedBy: old.KeyID(), Sig: base64.StdEncoding.EncodeToString(raw), recorded: true}
	event := palyra.KeyRotated{Use: key.Use, Old: old.KeyID(), Key: key, By: by, Sig: entry.Sig}
	err = r.cfg.DB.Write(ctx, event.Kind(), func(tx *store.Tx) error {
		tx.OnDone(func(committed bool) {
			if committed {
				r.swap(old.KeyID(), next, entry, now)
			}
		})
		if err := retire(tx, old.KeyID(), now); err != nil {
			return err
		}
		if err := insert(tx, entry); err != nil {
			return err
		}
		_, err := r.recorder().Append(tx, event)
		return err
	})
	if err != nil {
		return palyra.Key{}, fmt.Errorf("keyring: rotate: %w", err)
	}
	return key, nil
}

func (r *Ring) swap(old string, next *Signer, entry TrustKey, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.history {
		if r.history[i].ID == old {
			r.history[i].RetiredAt = now
		}
	}
	r.history = append(r.history, entry)
	r.signers[next.use] = next
}

func (r *Ring) notifyUse(use palyra.KeyUse) {
	r.mu.Lock()
	listeners := slices.Clone(r.listeners)
	r.mu.Unlock()
	for _, f := range listeners {
		f(use)
	}
}

func (r *Ring) recorder() store.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal
}

func (r *Ring) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Ring) release() { <-r.turn }

// rotationMessage is what the old key signs: that it hands over to this key.
func rotationMessage(old string, key palyra.Key) ([]byte, error) {
	b, err := canon.Marshal(map[string]string{
		"use": string(key.Use), "old_key_id": old, "key_id": key.ID, "public_key": key.PublicKey, "verifier": key.Verifier,
	})
	if err != nil {
		return nil, fmt.Errorf("keyring: rotate: %w", err)
	}
	return append([]byte(rotationDomain), b...), nil
}
