package access

import (
	"context"
	"errors"
	"strings"

	"palyra"
	"palyra/internal/store"
)

// asked is whose standing is remembered together: both come out of one look at the registry.
type asked struct{ principal, owner palyra.Principal }

// Standing returns the roles of a principal and of its owner, as of one moment. Somebody removed or unknown has
// none; an agent has the role agent.
func (r *Registry) Standing(ctx context.Context, p, owner palyra.Principal) (palyra.Standing, error) {
	return r.standings.Get(ctx, asked{p, owner}, func(tx *store.Tx) (found palyra.Standing, err error) {
		if found.Roles, found.Device, err = standing(tx, p); err != nil || owner == "" {
			return found, err
		}
		found.Owner, _, err = standing(tx, owner)
		return found, err
	})
}

// standing looks one principal up, with the device that it is or speaks for.
func standing(tx *store.Tx, p palyra.Principal) (roles []palyra.Role, deviceID string, err error) {
	switch p.Kind() {
	case "user":
		u, err := user(tx, p)
		if errors.Is(err, store.ErrNoRows) || err == nil && !u.RemovedAt.IsZero() {
			return nil, "", nil
		}
		return []palyra.Role{u.Role}, "", err
	case "agent":
		name, of := strings.CutPrefix(p.Name(), palyra.DeviceAgent)
		if of {
			_, deviceID, err = deviceStanding(tx, name)
		}
		return []palyra.Role{palyra.RoleAgent}, deviceID, err
	case "device":
		return deviceStanding(tx, p.Name())
	}
	return nil, "", nil
}

// deviceStanding is that of a device by its name or id: no more than both its own role and its person's.
func deviceStanding(tx *store.Tx, name string) ([]palyra.Role, string, error) {
	var id, principal string
	var role palyra.Role
	err := tx.Get(`SELECT id, principal, role FROM access_devices WHERE (name = ? OR id = ?) AND revoked_at = 0`, []any{name, name}, &id,
		&principal, &role)
	if errors.Is(err, store.ErrNoRows) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	u, err := user(tx, palyra.Principal(principal))
	if errors.Is(err, store.ErrNoRows) || err == nil && !u.RemovedAt.IsZero() {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if both := lesser(role, u.Role); both != "" {
		return []palyra.Role{both}, id, nil
	}
	return nil, id, nil
}
