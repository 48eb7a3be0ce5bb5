package vault

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"palyra"
	"palyra/internal/store"
)

// ident names one version of one secret.
type ident struct {
	scope, name string
	version     int64
}

func (i ident) compare(o ident) int {
	return cmp.Or(cmp.Compare(i.scope, o.scope), cmp.Compare(i.name, o.name), cmp.Compare(i.version, o.version))
}

// leaf is the digest of a row without the sealed value: that is bound to its data key, which is in it.
type leaf [sha256.Size]byte

// validKeyID is the id of a vault key. Keepers make names of files of it.
var validKeyID = regexp.MustCompile(`^[0-9A-Za-z]{1,64}$`)

// manifest is what is authenticated of a vault, beside its leaves.
type manifest struct {
	counter     int64
	key, keeper string
	mac         []byte
}

// sum is the seal of a manifest over leaves.
func (m manifest) sum(leaves map[ident]leaf, keys derived) (mac []byte) {
	_ = keys.manifest.Use(func(k []byte) error {
		h := hmac.New(sha256.New, k)
		h.Write(encode(useManifest, m.counter, m.key, m.keeper, int64(len(leaves))))
		for _, i := range slices.SortedFunc(maps.Keys(leaves), ident.compare) {
			l := leaves[i]
			h.Write(l[:])
		}
		mac = h.Sum(nil)
		return nil
	})
	return mac
}

func (m manifest) authentic(leaves map[ident]leaf, keys derived) bool {
	return hmac.Equal(m.mac, m.sum(leaves, keys))
}

// row is a version of a secret as it is kept.
type row struct {
	ident
	dataKey, vaultKey string
	wrapped, sealed   []byte
	unmasked          int64 // 0 or 1
	by                palyra.Principal
	created, expires  int64
}

// leaf is the row's digest.
func (r row) leaf() leaf {
	return sha256.Sum256(encode(kindLeaf, r.scope, r.name, r.version, r.dataKey, r.vaultKey, r.wrapped, r.unmasked, string(r.by), r.created,
		r.expires))
}

// aboutValue and aboutKey are what a sealed value and a wrapped data key are bound to.
func (r row) aboutValue() []byte { return encode(kindValue, r.scope, r.name, r.version, r.dataKey) }

func (r row) aboutKey() []byte {
	return encode(kindWrapped, r.scope, r.name, r.version, r.dataKey, r.vaultKey)
}

const rowColumns = `scope, name, version, data_key, vault_key, wrapped, unmasked, created_by, created_at, expires_at`

func (r *row) places() []any {
	return []any{&r.scope, &r.name, &r.version, &r.dataKey, &r.vaultKey, &r.wrapped, &r.unmasked, &r.by, &r.created, &r.expires}
}

// load reads the manifest and what it lists.
func (v *Vault) load(ctx context.Context) (m manifest, on listed, err error) {
	leaves := map[ident]leaf{}
	err = v.DB.Read(ctx, func(tx *store.Tx) error {
		if m, err = readManifest(tx); err != nil {
			return err
		}
		err := tx.Each(`SELECT `+rowColumns+` FROM vault_secrets`, nil, func(scan func(...any) error) error {
			var r row
			if err := scan(r.places()...); err != nil {
				return damaged("a secret is kept as no secret can be").WithCause(err)
			}
			leaves[r.ident] = r.leaf()
			return nil
		})
		if err == nil {
			on.bindings, err = loadBindings(tx, leaves)
		}
		if err == nil {
			on.recipients, err = loadRecipients(tx, leaves)
		}
		on.leaves = leaves
		return err
	})
	if err != nil && !errors.Is(err, errNone) {
		err = fmt.Errorf("vault: open: %w", err)
	}
	return m, on, err
}

// readManifest reads the manifest; errNone: the vault has not begun. Secrets without a manifest are a damage.
func readManifest(tx *store.Tx) (m manifest, err error) {
	found := false
	err = tx.Each(`SELECT counter, vault_key, keeper, mac FROM vault_manifest`, nil, func(scan func(...any) error) error {
		if err := scan(&m.counter, &m.key, &m.keeper, &m.mac); err != nil || found || m.counter < 1 || !validKeyID.MatchString(m.key) {
			return damaged("the list of what it holds is none").WithCause(err)
		}
		found = true
		return nil
	})
	if err != nil || found {
		return m, err
	}
	var n int64
	if err := tx.Get(`SELECT (SELECT count(*) FROM vault_secrets) + (SELECT count(*) FROM vault_bindings) +
		(SELECT count(*) FROM vault_recipients)`, nil, &n); err != nil {
		return m, err
	}
	if n > 0 {
		return m, damaged("there are secrets, and no list of what it holds")
	}
	return m, errNone
}

// write keeps a manifest in the place of the one before.
func (m manifest) write(tx *store.Tx) error {
	_, err := tx.Exec(`INSERT INTO vault_manifest (one, counter, vault_key, keeper, mac) VALUES (1, ?, ?, ?, ?)
		ON CONFLICT (one) DO UPDATE SET counter=excluded.counter, vault_key=excluded.vault_key, keeper=excluded.keeper, mac=excluded.mac`,
		m.counter, m.key, m.keeper, m.mac)
	return err
}
