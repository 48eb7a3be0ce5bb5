package access

import (
	"slices"

	"palyra"
	"palyra/internal/commandagent"
	"palyra/internal/store"
)

// OnEnd has f called with the id of every credential that ended, after that is durable: "key:<id>", "device:<id>",
// "token:<id>", "agent:<name>", and "user:<name>" for whatever else speaks for a person. It is called, too, when a
// person's role or reach becomes less; then the credential lives, and only what was opened with it is over. f must
// be quick.
func (r *Registry) OnEnd(f func(credentialID string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onEnd = append(r.onEnd, f)
}

// ended tells the listeners of ended credentials, except the one named.
func (r *Registry) ended(ids []string, but string) {
	r.mu.Lock()
	tell := slices.Clone(r.onEnd)
	r.mu.Unlock()
	for _, id := range ids {
		for _, f := range tell {
			if but == "" || id != but {
				f(id)
			}
		}
	}
}

// owned lists the ids of somebody's credentials, by a query with their name.
func owned(tx *store.Tx, query string, p palyra.Principal) (ids []string, err error) {
	err = tx.Each(query, []any{string(p)}, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

const (
	keysOf    = `SELECT key_id FROM access_operators WHERE principal = ? AND removed_at = 0 ORDER BY seq`
	devicesOf = `SELECT id FROM access_devices WHERE principal = ? AND revoked_at = 0 ORDER BY id`
	tokensOf  = `SELECT id FROM access_tokens WHERE principal = ? AND revoked_at = 0 ORDER BY id`
	agentsOf  = `SELECT principal FROM access_agents WHERE owner = ? AND removed_at = 0 ORDER BY principal`
)

// credentials lists the ids of all credentials of a principal: for a person with those of their agents.
func credentials(tx *store.Tx, p palyra.Principal) ([]string, error) {
	out, err := ownCredentials(tx, p)
	if err != nil {
		return nil, err
	}
	agents, err := owned(tx, agentsOf, p)
	for _, a := range agents {
		more, err := ownCredentials(tx, palyra.Principal(a))
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, err
}

// ownCredentials lists the ids of the credentials that speak for a principal themselves.
func ownCredentials(tx *store.Tx, p palyra.Principal) ([]string, error) {
	out := []string{string(p)}
	if !p.IsAgent() {
		out = append(out, string(commandagent.Of(p).Principal))
	}
	for _, c := range []struct{ query, prefix string }{{keysOf, "key:"}, {devicesOf, "device:"}, {tokensOf, "token:"}} {
		ids, err := owned(tx, c.query, p)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			out = append(out, c.prefix+id)
		}
	}
	return out, nil
}

// outdatedCredentials lists the credentials with which more may have been opened than a person has after a
// change. Agents lose with their owner's reach, and not with the role.
func outdatedCredentials(tx *store.Tx, old, next palyra.User) ([]string, error) {
	after := giver{palyra.Operator{Role: next.Role}, next}
	switch {
	case !containsReach(old.Workspaces, next.Workspaces):
		return credentials(tx, next.Principal)
	case !after.covers(old.Role):
		return ownCredentials(tx, next.Principal)
	}
	return nil, nil
}

// endAll ends everything that belongs to a person, each with a line of its own.
func (r *Registry) endAll(tx *store.Tx, p, by palyra.Principal, sig palyra.Signature) error {
	for _, c := range []struct {
		query string
		end   func(tx *store.Tx, id string, by palyra.Principal, sig palyra.Signature) error
	}{{keysOf, r.endKey}, {devicesOf, r.endDevice}, {tokensOf, r.endToken}, {agentsOf, r.endAgent}} {
		ids, err := owned(tx, c.query, p)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := c.end(tx, id, by, sig); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Registry) endKey(tx *store.Tx, id string, by palyra.Principal, sig palyra.Signature) error {
	if _, err := tx.Exec(`UPDATE access_operators SET removed_at = ? WHERE key_id = ?`, r.Now().UnixNano(), id); err != nil {
		return err
	}
	return r.record(tx, palyra.OperatorRemoved{KeyID: id, By: by, Signature: sig})
}

func (r *Registry) endDevice(tx *store.Tx, id string, by palyra.Principal, sig palyra.Signature) error {
	if _, err := tx.Exec(`UPDATE access_devices SET revoked_at = ?, revoked_by = ? WHERE id = ?`, r.Now().UnixNano(), string(by),
		id); err != nil {
		return err
	}
	return r.record(tx, palyra.DeviceRevoked{Device: id, By: by, Signature: sig})
}

func (r *Registry) endToken(tx *store.Tx, id string, by palyra.Principal, sig palyra.Signature) error {
	if _, err := tx.Exec(`UPDATE access_tokens SET revoked_at = ?, revoked_by = ? WHERE id = ?`, r.Now().UnixNano(), string(by),
		id); err != nil {
		return err
	}
	return r.record(tx, palyra.TokenRevoked{Token: id, By: by, Signature: sig})
}

// endAgent ends an agent with the tokens that speak for it.
func (r *Registry) endAgent(tx *store.Tx, id string, by palyra.Principal, sig palyra.Signature) error {
	ids, err := owned(tx, tokensOf, palyra.Principal(id))
	if err != nil {
		return err
	}
	for _, t := range ids {
		if err := r.endToken(tx, t, by, sig); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`UPDATE access_agents SET removed_at = ? WHERE principal = ?`, r.Now().UnixNano(), id); err != nil {
		return err
	}
	return r.record(tx, palyra.AgentRemoved{Principal: palyra.Principal(id), By: by, Signature: sig})
}
