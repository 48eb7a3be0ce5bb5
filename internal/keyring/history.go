package keyring

import (
	"context"
	"embed"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/store"
)

//go:embed schema
var schemas embed.FS

// Schema returns the package's tables.
func Schema() store.Schema { return store.SchemaOf("keyring", schemas) }

func readHistory(ctx context.Context, db *store.DB) ([]TrustKey, error) {
	var keys []TrustKey
	err := db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT key_id, key_use, public_key, verifier, signed_by, sig, created, retired
			FROM signing_keys ORDER BY seq`, nil, func(scan func(...any) error) error {
			k := TrustKey{recorded: true}
			var created, retired int64
			if err := scan(&k.ID, &k.Use, &k.PublicKey, &k.Verifier, &k.SignedBy, &k.Sig, &created, &retired); err != nil {
				return err
			}
			k.CreatedAt, k.RetiredAt = moment(created), moment(retired)
			keys = append(keys, k)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("keyring: read history: %w", err)
	}
	return keys, nil
}

func insert(tx *store.Tx, k TrustKey) error {
	// The order is counted, not taken from the clock, which may jump.
	_, err := tx.Exec(`INSERT INTO signing_keys (seq, key_id, key_use, public_key, verifier, signed_by, sig, created, retired)
		VALUES ((SELECT COUNT(*) FROM signing_keys), ?, ?, ?, ?, ?, ?, ?, 0)`, k.ID, k.Use, k.PublicKey, k.Verifier, k.SignedBy, k.Sig, k.CreatedAt.UnixNano())
	if err != nil {
		return fmt.Errorf("keyring: insert key: %w", err)
	}
	return nil
}

// retire ends a key's service. That it was in service is part of the statement:
// two rotations cannot both retire it.
func retire(tx *store.Tx, id string, at time.Time) error {
	n, err := tx.Exec(`UPDATE signing_keys SET retired = ? WHERE key_id = ? AND retired = 0`, at.UnixNano(), id)
	if err != nil {
		return fmt.Errorf("keyring: retire key: %w", err)
	}
	if n != 1 {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "key %s is no longer in use", id).
			WithRemedy("look at 'palyra keys list' and try again")
	}
	return nil
}

func current(keys []TrustKey, use palyra.KeyUse) *TrustKey {
	for i := range keys {
		if keys[i].Use == use && keys[i].RetiredAt.IsZero() {
			return &keys[i]
		}
	}
	return nil
}

func moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
