package access

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"palyra"
	"palyra/internal/store"
)

const userColumns = `SELECT principal, role, workspaces, added_at, added_by, removed_at FROM access_users`

// manage is the permission to change who may do what.
const manage = palyra.PermitAccessManage

// AddUser makes a person known, with no credential yet. The signer must have
// all that they give. The name of somebody removed is not given again.
func (r *Registry) AddUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	u, err := r.checkedUser(u)
	if err != nil {
		return palyra.User{}, err
	}
	err = r.DB.Write(ctx, "user.added", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		if err := by.mayGive(u.Role, u.Workspaces); err != nil {
			return err
		}
		u.AddedBy = by.Principal
		return r.insertUser(tx, u, &sig)
	})
	if err != nil {
		return palyra.User{}, err
	}
	return u, nil
}

// insertUser writes a new person and their line.
func (r *Registry) insertUser(tx *store.Tx, u palyra.User, sig *palyra.Signature) error {
	n, err := tx.Exec(`INSERT INTO access_users (principal, role, workspaces, added_at, added_by, removed_at)
		VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT (principal) DO NOTHING`,
		string(u.Principal), string(u.Role), encodeList(u.Workspaces), u.AddedAt.UnixNano(), string(u.AddedBy))
	if err != nil {
		return err
	}
	if n == 0 {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "%s is known already, or was removed", u.Principal).
			WithRemedy("change the person, or choose another name; that of a removed person is not given again")
	}
	return r.record(tx, palyra.UserAdded{User: u, Signature: sig})
}

// ChangeUser gives a person another role and other workspaces, both as a whole. The signer must have all that the
// person had and all that they get. What was opened with more than the person has now ends.
func (r *Registry) ChangeUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	next, err := r.checkedUser(u)
	if err != nil {
		return palyra.User{}, err
	}
	var over []string
	var with string
	err = r.DB.Write(ctx, "user.changed", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		old, err := knownUser(tx, next.Principal)
		if err != nil {
			return err
		}
		if err := cmp.Or(by.mayGive(old.Role, old.Workspaces), by.mayGive(next.Role, next.Workspaces)); err != nil {
			return err
		}
		local, err := localAgentEnds(tx)
		if err != nil {
			return err
		}
		with = by.credential()
		next.AddedAt, next.AddedBy = old.AddedAt, old.AddedBy
		if _, err := tx.Exec(`UPDATE access_users SET role = ?, workspaces = ? WHERE principal = ?`,
			string(next.Role), encodeList(next.Workspaces), string(next.Principal)); err != nil {
			return err
		}
		if err := checkOwnerLeft(tx); err != nil {
			return err
		}
		if over, err = outdatedCredentials(tx, old, next); err != nil {
			return err
		}
		more, err := local()
		if err != nil {
			return err
		}
		over = append(over, more...)
		return r.record(tx, palyra.UserChanged{User: next, By: by.Principal, Signature: sig})
	})
	if err != nil {
		return palyra.User{}, err
	}
	r.ended(over, with) // the request itself goes on
	return next, nil
}

// RemoveUser ends a person with every key, device, token and agent of theirs at once. The last owner stays.
func (r *Registry) RemoveUser(ctx context.Context, p palyra.Principal, sig palyra.Signature) error {
	var over []string
	err := r.DB.Write(ctx, "user.removed", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		u, err := knownUser(tx, p)
		if err != nil {
			return err
		}
		if err := by.mayGive(u.Role, u.Workspaces); err != nil {
			return err
		}
		local, err := localAgentEnds(tx)
		if err != nil {
			return err
		}
		if over, err = credentials(tx, p); err != nil {
			return err
		}
		if err := r.endAll(tx, p, by.Principal, sig); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE access_users SET removed_at = ? WHERE principal = ?`, r.Now().UnixNano(), string(p)); err != nil {
			return err
		}
		if err := checkOwnerLeft(tx); err != nil {
			return err
		}
		more, err := local()
		if err != nil {
			return err
		}
		over = append(over, more...)
		return r.record(tx, palyra.UserRemoved{Principal: p, By: by.Principal, Signature: sig})
	})
	if err == nil {
		r.ended(over, "")
	}
	return err
}

// Users lists everybody ever known, in the order of their names.
func (r *Registry) Users(ctx context.Context) ([]palyra.User, error) {
	var all []palyra.User
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		all, err = users(tx)
		return err
	})
	return all, err
}

func users(tx *store.Tx) (all []palyra.User, err error) {
	err = tx.Each(userColumns+` ORDER BY principal`, nil, func(scan func(...any) error) error {
		u, err := scanUser(scan)
		all = append(all, u)
		return err
	})
	return all, err
}

// User returns a person, removed or not.
func (r *Registry) User(ctx context.Context, p palyra.Principal) (palyra.User, error) {
	var u palyra.User
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		u, err = user(tx, p)
		return err
	})
	if errors.Is(err, store.ErrNoRows) {
		return palyra.User{}, noUser(p)
	}
	return u, err
}

// Cap returns the role that bounds every credential of a principal, and the workspaces that it reaches; none means
// all. An agent reaches what its owner does. Somebody unknown or removed is Denied.
func (r *Registry) Cap(ctx context.Context, p palyra.Principal) (palyra.Role, []string, error) {
	found, err := r.caps.Get(ctx, p, func(tx *store.Tx) (capReach, error) {
		owner, err := personOf(tx, p)
		if err != nil {
			return capReach{}, err
		}
		u, err := liveUser(tx, owner)
		if err != nil {
			return capReach{}, err
		}
		if p.IsAgent() {
			u.Role = palyra.RoleAgent
		}
		return capReach{u.Role, u.Workspaces}, nil
	})
	return found.role, slices.Clone(found.within), err
}

// capReach is how far a principal's credentials go.
type capReach struct {
	role   palyra.Role
	within []string
}

func (r *Registry) checkedUser(u palyra.User) (palyra.User, error) {
	if u.Principal.Kind() != "user" || !goodName(u.Principal.Name()) {
		return palyra.User{}, invalid("a person is user:<name>, with a name of a-z, 0-9, '.', '_', '-'")
	}
	if err := personRole(u.Role); err != nil {
		return palyra.User{}, err
	}
	paths, err := goodPaths(u.Workspaces)
	return palyra.User{Principal: u.Principal, Role: u.Role, Workspaces: paths, AddedAt: r.Now().UTC()}, err
}

// user finds a person, removed or not; store.ErrNoRows when there is none.
func user(tx *store.Tx, p palyra.Principal) (palyra.User, error) {
	return scanUser(func(dest ...any) error {
		return tx.Get(userColumns+` WHERE principal = ?`, []any{string(p)}, dest...)
	})
}

// liveUser finds a person who is there, for a request of theirs.
func liveUser(tx *store.Tx, p palyra.Principal) (palyra.User, error) {
	u, err := user(tx, p)
	if errors.Is(err, store.ErrNoRows) || err == nil && !u.RemovedAt.IsZero() {
		return palyra.User{}, palyra.Errorf(palyra.Denied, palyra.ReasonNoCredential, "%s is not known here, or was removed",
			palyra.Clip(string(p), 128)).
			WithRemedy("have an owner add the person: palyra access user add")
	}
	return u, err
}

// knownUser finds a person who is there, as what a request is about.
func knownUser(tx *store.Tx, p palyra.Principal) (palyra.User, error) {
	u, err := user(tx, p)
	if errors.Is(err, store.ErrNoRows) || err == nil && !u.RemovedAt.IsZero() {
		return palyra.User{}, noUser(p)
	}
	return u, err
}

func scanUser(scan func(...any) error) (palyra.User, error) {
	var u palyra.User
	var workspaces string
	var added, removed int64
	if err := scan(&u.Principal, &u.Role, &workspaces, &added, &u.AddedBy, &removed); err != nil {
		return palyra.User{}, err
	}
	u.AddedAt, u.RemovedAt = moment(added), moment(removed)
	return u, decodeList(workspaces, &u.Workspaces)
}

// encodeList is a list as a column holds it.
func encodeList[T ~string](l []T) string {
	if len(l) == 0 {
		return "[]"
	}
	raw, _ := json.Marshal(l) // strings: it cannot fail
	return string(raw)
}

// decodeList reads it back; an empty list is nil.
func decodeList[T ~string](column string, l *[]T) error {
	if column == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(column), l)
}

func noUser(p palyra.Principal) error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "nobody is called %s", palyra.Clip(string(p), 128)).
		WithRemedy("see 'palyra access user list'")
}
