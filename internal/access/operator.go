package access

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"

	"palyra"
	"palyra/internal/store"
)

const operatorColumns = `SELECT principal, role, key_id, public_key, separation, added_at, removed_at FROM access_operators`

// keyID names a public key the way operators' key files do.
func keyID(pub ed25519.PublicKey) string { return "op-" + keyDigest(pub) }

func keyDigest(pub ed25519.PublicKey) string {
	return strings.TrimPrefix(string(palyra.SumBytes(pub)), "sha256:")[:32]
}

// AddOperator makes a person's key known; the signer must be an owner to do so
// for somebody else. Somebody not known yet becomes so, with the key's role.
// Adding a key that is known for the same person and role changes its separation.
func (r *Registry) AddOperator(ctx context.Context, o palyra.Operator, sig palyra.Signature) (palyra.Operator, error) {
	o, err := r.checked(o)
	if err != nil {
		return palyra.Operator{}, err
	}
	err = r.DB.Write(ctx, "operator.added", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		if o.Principal != by.Principal && !by.owner() {
			return onlyOwner() // with another's name one could vote as them
		}
		if err := r.personFor(tx, by, o, sig); err != nil {
			return err
		}
		old, err := operator(tx, o.KeyID)
		switch {
		case palyra.CodeOf(err) == palyra.Denied: // not known yet
			err = insertKey(tx, o)
		case err == nil:
			err = changeSeparation(tx, old, o)
			o.AddedAt = old.AddedAt
		}
		if err != nil {
			return err
		}
		return r.record(tx, palyra.OperatorAdded{Operator: o, Signature: &sig})
	})
	return o, err
}

// personFor checks that a key is no more than its person, and makes the person
// known when nobody of that name ever was.
func (r *Registry) personFor(tx *store.Tx, by giver, o palyra.Operator, sig palyra.Signature) error {
	u, err := user(tx, o.Principal)
	if errors.Is(err, store.ErrNoRows) {
		u = palyra.User{Principal: o.Principal, Role: o.Role, AddedAt: o.AddedAt, AddedBy: by.Principal}
		if err := by.mayGive(u.Role, nil); err != nil {
			return err
		}
		return r.insertUser(tx, u, &sig)
	}
	switch {
	case err != nil:
		return err
	case !u.RemovedAt.IsZero():
		return noUser(o.Principal)
	case !(giver{palyra.Operator{Role: u.Role}, u}).covers(o.Role):
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "%s has the role %s; a key of theirs cannot hold more", u.Principal, u.Role).
			WithRemedy("change the person's role first: palyra access user change")
	}
	return by.mayGive(o.Role, u.Workspaces)
}

// insertKey adds an operator's key, which must not be a device's.
func insertKey(tx *store.Tx, o palyra.Operator) error {
	var n int64
	if err := tx.Get(`SELECT COUNT(*) FROM access_devices WHERE key_id = ?`, []any{o.KeyID}, &n); err != nil {
		return err
	}
	if n > 0 {
		return keyTaken()
	}
	return insertOperator(tx, o, -1)
}

func changeSeparation(tx *store.Tx, old, o palyra.Operator) error {
	if !old.RemovedAt.IsZero() || old.Principal != o.Principal || old.Role != o.Role || old.Separation == o.Separation {
		return keyTaken()
	}
	_, err := tx.Exec(`UPDATE access_operators SET separation = ? WHERE key_id = ?`, string(o.Separation), o.KeyID)
	return err
}

func keyTaken() error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the key is already known").
		WithRemedy("make a new key; a removed one is not taken back")
}

// RemoveOperator ends a key at once: one's own, or that of somebody who has no more
// than the signer. The last owner's key stays.
func (r *Registry) RemoveOperator(ctx context.Context, id string, sig palyra.Signature) error {
	over := []string{"key:" + id}
	err := r.DB.Write(ctx, "operator.removed", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		o, err := operator(tx, id)
		if err != nil || !o.RemovedAt.IsZero() {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no operator has the key %s", palyra.Clip(id, 64))
		}
		if err := by.mayEndFor(tx, o.Principal); err != nil {
			return err
		}
		local, err := localAgentEnds(tx)
		if err != nil {
			return err
		}
		if err := r.endKey(tx, id, by.Principal, sig); err != nil {
			return err
		}
		if err := checkOwnerLeft(tx); err != nil {
			return err
		}
		more, err := local()
		over = append(over, more...)
		return err
	})
	if err == nil {
		r.ended(over, "")
	}
	return err
}

// checkOwnerLeft checks that somebody can still do everything. A device does not count: it can be lost with
// its one key.
func checkOwnerLeft(tx *store.Tx) error {
	var n int64
	err := tx.Get(`SELECT COUNT(*) FROM access_operators o JOIN access_users u ON u.principal = o.principal
		WHERE o.role = ? AND o.removed_at = 0 AND u.role = ? AND u.removed_at = 0`,
		[]any{string(palyra.RoleOwner), string(palyra.RoleOwner)}, &n)
	if err != nil || n > 0 {
		return err
	}
	return lastOwner(tx)
}

// lastOwner is the refusal to end the last owner's key. Another person who is an
// owner is named where there is one: what is missing then is a key of theirs.
func lastOwner(tx *store.Tx) error {
	e := palyra.Errorf(palyra.Conflict, palyra.ReasonLastOwner, "this is the last owner's key")
	var other string
	err := tx.Get(`SELECT principal FROM access_users WHERE role = ? AND removed_at = 0 ORDER BY principal LIMIT 1`,
		[]any{string(palyra.RoleOwner)}, &other)
	switch {
	case errors.Is(err, store.ErrNoRows):
		return e.WithRemedy("add another owner with a key first: palyra operator add user:NAME --role owner --public-key KEY")
	case err != nil:
		return err
	}
	return e.WithRemedy("%[1]s is an owner without an owner's key: 'palyra up' under their account makes one and 'palyra operator "+
		"show' prints it; "+
		"then here: palyra operator add %[1]s --role owner --public-key KEY", other)
}

// Operators lists every key ever known, in the order they were added.
func (r *Registry) Operators(ctx context.Context) ([]palyra.Operator, error) {
	var all []palyra.Operator
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(operatorColumns+` ORDER BY seq`, nil, func(scan func(...any) error) error {
			o, err := scanOperator(scan)
			all = append(all, o)
			return err
		})
	})
	return all, err
}

// Person returns the operator as whom the daemon's own user looks around
// without a signature: the person the first owner was made for.
func (r *Registry) Person(ctx context.Context, uid int64) (palyra.Operator, error) {
	o, err := r.people.Get(ctx, uid, func(tx *store.Tx) (palyra.Operator, error) {
		return getOperator(tx, operatorColumns+` WHERE removed_at = 0 AND principal IN (SELECT principal FROM access_operators WHERE uid = ?)
			ORDER BY seq LIMIT 1`, uid)
	})
	if errors.Is(err, store.ErrNoRows) {
		return palyra.Operator{}, palyra.Errorf(palyra.Denied, palyra.ReasonNoCredential, "user %d has no operator key here", uid).
			WithRemedy("sign with an operator key")
	}
	return o, err
}

func (r *Registry) checked(o palyra.Operator) (palyra.Operator, error) {
	pub, err := base64.StdEncoding.Strict().DecodeString(o.PublicKey)
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return palyra.Operator{}, invalid("the public key is not an Ed25519 key in base64")
	}
	if o.Principal.Kind() != "user" || !goodName(o.Principal.Name()) {
		return palyra.Operator{}, invalid("an operator is user:<name>, with a name of a-z, 0-9, '.', '_', '-'")
	}
	if err := personRole(o.Role); err != nil {
		return palyra.Operator{}, err
	}
	switch o.Separation {
	case palyra.SeparationNone, palyra.SeparationPassphrase, palyra.SeparationOtherUID:
	case "":
		o.Separation = palyra.SeparationNone
	default: // device is what a paired device has; nobody only says so
		return palyra.Operator{}, invalid("the separation must be none, passphrase or other_uid")
	}
	return palyra.Operator{
		Principal: o.Principal, Role: o.Role, KeyID: keyID(pub), PublicKey: o.PublicKey, Separation: o.Separation,
		AddedAt: r.Now().UTC(),
	}, nil
}

func insertOperator(tx *store.Tx, o palyra.Operator, uid int64) error {
	_, err := tx.Exec(`INSERT INTO access_operators (seq, key_id, principal, role, public_key, separation, uid, added_at, removed_at)
		VALUES ((SELECT COALESCE(MAX(seq), 0) + 1 FROM access_operators), ?, ?, ?, ?, ?, ?, ?, 0)`,
		o.KeyID, string(o.Principal), string(o.Role), o.PublicKey, string(o.Separation), uid, o.AddedAt.UnixNano())
	return err
}

// operator finds a key, removed or not.
func operator(tx *store.Tx, id string) (palyra.Operator, error) {
	o, err := getOperator(tx, operatorColumns+` WHERE key_id = ?`, id)
	if errors.Is(err, store.ErrNoRows) {
		return palyra.Operator{}, unknownKey()
	}
	return o, err
}

func getOperator(tx *store.Tx, query string, args ...any) (palyra.Operator, error) {
	return scanOperator(func(dest ...any) error { return tx.Get(query, args, dest...) })
}

func scanOperator(scan func(...any) error) (palyra.Operator, error) {
	var o palyra.Operator
	var added, removed int64
	err := scan(&o.Principal, &o.Role, &o.KeyID, &o.PublicKey, &o.Separation, &added, &removed)
	o.AddedAt, o.RemovedAt = moment(added), moment(removed)
	return o, err
}

// goodName accepts names that look like nothing else and need no quoting.
func goodName(s string) bool {
	const most = 64
	if s == "" || len(s) > most || !alnum(s[0]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alnum(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func alnum(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func unknownKey() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonUnknownKey, "the daemon does not know the signing key, or it was removed").
		WithRemedy("have an owner add the key: palyra operator add")
}

func invalid(why string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", why).
		WithRemedy("see 'palyra access --help'; 'palyra access roles' lists roles and permissions")
}
