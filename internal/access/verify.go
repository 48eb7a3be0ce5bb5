package access

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"palyra"
	"palyra/internal/store"
)

// Verify checks the tables of people, tokens, devices and agents against the journal, which is signed: a row
// that somebody wrote, changed or removed past the daemon must give nobody a power. each walks the journal's
// entries of a kind, in order, with their bodies. It comes before Adopt.
func (r *Registry) Verify(ctx context.Context, each func(kind string, f func(raw []byte) error) error) error {
	s := journaled{
		map[string]palyra.User{},
		map[string]palyra.Token{},
		map[string]palyra.Device{},
		map[string]palyra.Agent{},
		map[string]string{},
	}
	if err := s.read(each); err != nil {
		return err
	}
	return r.DB.Read(ctx, func(tx *store.Tx) error {
		for _, check := range []func(*store.Tx) error{s.holdUsers, s.holdTokens, s.holdDevices, s.holdAgents} {
			if err := check(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// journaled is the content that the tables must have by the journal. The time of an end is in the entry and
// not in the event, so that an end stands as over.
type journaled struct {
	users   map[string]palyra.User
	tokens  map[string]palyra.Token
	devices map[string]palyra.Device
	agents  map[string]palyra.Agent
	secrets map[string]string // ids of agents' credentials; earlier lines have none
}

var endedMark = time.Unix(0, 0).UTC()

// read takes in all that the journal says.
func (s journaled) read(each func(kind string, f func(raw []byte) error) error) error {
	for _, take := range []func(func(string, func([]byte) error) error) error{
		onEvent(func(e palyra.UserAdded) { s.users[string(e.User.Principal)] = e.User }),
		onEvent(func(e palyra.UserChanged) { s.users[string(e.User.Principal)] = e.User }),
		onEvent(func(e palyra.UserRemoved) {
			change(s.users, string(e.Principal), func(u *palyra.User) { u.RemovedAt = endedMark })
		}),
		onEvent(func(e palyra.TokenAdded) { s.tokens[e.Token.ID] = e.Token }),
		onEvent(func(e palyra.TokenRevoked) {
			change(s.tokens, e.Token, func(t *palyra.Token) { t.RevokedAt, t.RevokedBy = endedMark, e.By })
		}),
		onEvent(func(e palyra.DevicePaired) { s.devices[e.Device.ID] = e.Device }),
		onEvent(func(e palyra.DeviceRenewed) {
			change(s.devices, e.Device, func(d *palyra.Device) {
				d.Certificate, d.Serial, d.ExpiresAt = e.Certificate, e.Serial, e.ExpiresAt
			})
		}),
		onEvent(func(e palyra.DeviceRevoked) {
			change(s.devices, e.Device, func(d *palyra.Device) { d.RevokedAt, d.RevokedBy = endedMark, e.By })
		}),
		onEvent(func(e palyra.AgentAdded) {
			s.agents[string(e.Agent.Principal)], s.secrets[string(e.Agent.Principal)] = e.Agent, e.Token
		}),
		onEvent(func(e palyra.AgentRemoved) {
			change(s.agents, string(e.Principal), func(a *palyra.Agent) { a.RemovedAt = endedMark })
		}),
	} {
		if err := take(each); err != nil {
			return err
		}
	}
	return nil
}

// onEvent decodes the entries of an event's kind.
func onEvent[E palyra.Event](f func(E)) func(func(string, func([]byte) error) error) error {
	return func(each func(string, func([]byte) error) error) error {
		var kind E
		return each(kind.Kind(), func(raw []byte) error {
			var e E
			err := json.Unmarshal(raw, &e)
			f(e)
			return err
		})
	}
}

func change[T any](m map[string]T, id string, f func(*T)) {
	if v, ok := m[id]; ok {
		f(&v)
		m[id] = v
	}
}

func (s journaled) holdUsers(tx *store.Tx) error {
	all, err := users(tx)
	for _, u := range all {
		u.RemovedAt = mask(u.RemovedAt)
		hold(&err, s.users, string(u.Principal), u)
	}
	return refuseMissing(err, s.users)
}

func (s journaled) holdTokens(tx *store.Tx) error {
	all, err := tokens(tx, func(t palyra.Token, digest palyra.Digest) error {
		if t.ID != tokenID(digest) {
			return tampered(t.ID)
		}
		return nil
	})
	for _, t := range all {
		t.RevokedAt, t.UsedAt = mask(t.RevokedAt), time.Time{}
		hold(&err, s.tokens, t.ID, t)
	}
	return refuseMissing(err, s.tokens)
}

func (s journaled) holdDevices(tx *store.Tx) error {
	all, err := devices(tx)
	for _, d := range all {
		d.RevokedAt, d.SeenAt = mask(d.RevokedAt), time.Time{}
		hold(&err, s.devices, d.ID, d)
	}
	return refuseMissing(err, s.devices)
}

func (s journaled) holdAgents(tx *store.Tx) error {
	all, err := agents(tx)
	for _, a := range all {
		a.RemovedAt = mask(a.RemovedAt)
		hold(&err, s.agents, string(a.Principal), a)
	}
	if err := refuseMissing(err, s.agents); err != nil {
		return err
	}
	return tx.Each(`SELECT principal, token_sha256 FROM access_agents`, nil, func(scan func(...any) error) error {
		var id, digest string
		if err := scan(&id, &digest); err != nil {
			return err
		}
		if want := s.secrets[id]; want != "" && want != tokenID(palyra.Digest(digest)) {
			return tampered(id)
		}
		return nil
	})
}

func mask(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return endedMark
}

// hold crosses a row off the journal's list; both must be the same.
func hold[T any](err *error, want map[string]T, id string, row T) {
	if *err != nil {
		return
	}
	w, ok := want[id]
	a, errA := json.Marshal(w)
	b, errB := json.Marshal(row)
	if !ok || errA != nil || errB != nil || !bytes.Equal(a, b) {
		*err = tampered(id)
	}
	delete(want, id)
}

// refuseMissing refuses rows that the journal has and the table does not.
func refuseMissing[T any](err error, want map[string]T) error {
	for id := range want {
		if err == nil {
			err = tampered(id)
		}
	}
	return err
}

func tampered(id string) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "%s is not what the journal knows", palyra.Clip(id, 128)).
		WithRemedy("somebody changed the state past the daemon; look at 'palyra journal verify' on a copy, and restore a backup")
}

// Adopt adds the people of a state from before there were people: those with keys or agents. Each gets the
// least role that covers their keys, which stay bounded by their own.
func (r *Registry) Adopt(ctx context.Context) error {
	var missing []palyra.User
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		missing, err = usersWithoutRow(tx)
		return err
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	return r.DB.Write(ctx, "user.added", func(tx *store.Tx) error {
		for _, u := range missing {
			u.AddedAt, u.AddedBy = r.Now().UTC(), palyra.SystemDaemon
			if err := r.insertUser(tx, u, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// usersWithoutRow lists people who have credentials and no row.
func usersWithoutRow(tx *store.Tx) (out []palyra.User, err error) {
	at := map[palyra.Principal]int{}
	err = tx.Each(`SELECT principal, role FROM (
			SELECT principal, role, seq FROM access_operators WHERE removed_at = 0
			UNION ALL SELECT owner, 'viewer', 0 FROM access_agents WHERE removed_at = 0) c
		WHERE NOT EXISTS (SELECT 1 FROM access_users u WHERE u.principal = c.principal) ORDER BY principal, seq`, nil,
		func(scan func(...any) error) error {
			u := palyra.User{}
			if err := scan(&u.Principal, &u.Role); err != nil {
				return err
			}
			i, known := at[u.Principal]
			if !known {
				at[u.Principal] = len(out)
				out = append(out, u)
				return nil
			}
			out[i].Role = join(out[i].Role, u.Role)
			return nil
		})
	return out, err
}

// join returns the least role that covers two.
func join(a, b palyra.Role) palyra.Role {
	for _, r := range ladder {
		g := giver{palyra.Operator{Role: r}, palyra.User{Role: r}}
		if g.covers(a) && g.covers(b) {
			return r
		}
	}
	return palyra.RoleOwner
}
