package access

import (
	"context"
	"crypto/subtle"
	"errors"

	"palyra"
	"palyra/internal/store"
)

// LocalName is the agent that needs no token: whoever comes through the agent
// door without one.
const LocalName = "local"

const agentColumns = `SELECT principal, owner, token_sha256, added_at, removed_at FROM access_agents`

// AddAgent names an agent and returns its token, which exists nowhere else. An
// empty owner means the signer; only an owner may name somebody else.
func (r *Registry) AddAgent(ctx context.Context, name string, owner palyra.Principal, sig palyra.Signature) (palyra.Agent, palyra.Secret, error) {
	if !goodName(name) {
		return palyra.Agent{}, palyra.Secret{}, invalid("an agent's name has 1 to 64 characters of a-z, 0-9, '.', '_', '-'")
	}
	if name == LocalName {
		return palyra.Agent{}, palyra.Secret{}, taken(name)
	}
	token, digest := newToken()
	a := palyra.Agent{Principal: palyra.Principal("agent:" + name), Owner: owner, AddedAt: r.Now().UTC()}
	err := r.DB.Write(ctx, "agent.added", func(tx *store.Tx) error {
		by, err := signer(tx, sig)
		if err != nil {
			return err
		}
		if a.Owner, err = ownerFor(tx, by, owner); err != nil {
			return err
		}
		n, err := tx.Exec(`INSERT INTO access_agents (principal, owner, token_sha256, added_at, removed_at)
			VALUES (?, ?, ?, ?, 0) ON CONFLICT (principal) DO NOTHING`,
			string(a.Principal), string(a.Owner), string(digest), a.AddedAt.UnixNano())
		if err != nil {
			return err
		}
		if n == 0 {
			return taken(name)
		}
		return r.record(tx, palyra.AgentAdded{Agent: a, Signature: sig})
	})
	if err != nil {
		token.Destroy()
		return palyra.Agent{}, palyra.Secret{}, err
	}
	return a, token, nil
}

// ownerFor checks that an agent's owner is the signer, or somebody known that
// an owner names.
func ownerFor(tx *store.Tx, by palyra.Operator, owner palyra.Principal) (palyra.Principal, error) {
	if owner == "" || owner == by.Principal {
		return by.Principal, nil
	}
	if by.Role != palyra.RoleOwner {
		return "", onlyOwner()
	}
	var n int64
	err := tx.Get(`SELECT COUNT(*) FROM access_operators WHERE principal = ? AND removed_at = 0`, []any{string(owner)}, &n)
	if err == nil && n == 0 {
		err = palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no operator is called %s", palyra.Clip(string(owner), 128))
	}
	return owner, err
}

// RemoveAgent ends an agent's token at once.
func (r *Registry) RemoveAgent(ctx context.Context, p palyra.Principal, sig palyra.Signature) error {
	return r.DB.Write(ctx, "agent.removed", func(tx *store.Tx) error {
		by, err := signer(tx, sig)
		if err != nil {
			return err
		}
		n, err := tx.Exec(`UPDATE access_agents SET removed_at = ? WHERE principal = ? AND removed_at = 0`, r.Now().UnixNano(), string(p))
		if err != nil {
			return err
		}
		if n == 0 {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no agent %s", palyra.Clip(string(p), 128)).
				WithRemedy("see 'palyra agent list'")
		}
		return r.record(tx, palyra.AgentRemoved{Principal: p, By: by.Principal, Signature: sig})
	})
}

// Agents lists every named agent, removed ones too, in the order of their names.
func (r *Registry) Agents(ctx context.Context) ([]palyra.Agent, error) {
	var all []palyra.Agent
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(agentColumns+` ORDER BY principal`, nil, func(scan func(...any) error) error {
			a, _, err := scanAgent(scan)
			all = append(all, a)
			return err
		})
	})
	return all, err
}

// AgentByToken returns the agent that a token belongs to. The token is looked
// up by its digest, so that the time a look-up takes says nothing about it.
func (r *Registry) AgentByToken(ctx context.Context, token palyra.Secret) (palyra.Agent, error) {
	var digest palyra.Digest
	var ok bool
	_ = token.Use(func(b []byte) error {
		digest, ok = parseToken(b)
		return nil
	})
	if !ok {
		return palyra.Agent{}, badToken()
	}
	var a palyra.Agent
	var stored palyra.Digest
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		a, stored, err = scanAgent(func(dest ...any) error {
			return tx.Get(agentColumns+` WHERE token_sha256 = ?`, []any{string(digest)}, dest...)
		})
		return err
	})
	switch {
	case errors.Is(err, store.ErrNoRows):
		return palyra.Agent{}, badToken()
	case err != nil:
		return palyra.Agent{}, err
	case subtle.ConstantTimeCompare([]byte(stored), []byte(digest)) != 1 || !a.RemovedAt.IsZero():
		return palyra.Agent{}, badToken()
	}
	return a, nil
}

// LocalAgent returns agent:local, which belongs to the first owner.
func (r *Registry) LocalAgent(ctx context.Context) (palyra.Agent, error) {
	a := palyra.Agent{Principal: "agent:" + LocalName}
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get(`SELECT principal FROM access_operators WHERE role = ? AND removed_at = 0 ORDER BY seq LIMIT 1`,
			[]any{string(palyra.RoleOwner)}, &a.Owner)
	})
	if errors.Is(err, store.ErrNoRows) {
		return palyra.Agent{}, palyra.Errorf(palyra.Denied, palyra.ReasonNoCredential, "this state has no owner yet").
			WithRemedy("run 'palyra up'")
	}
	return a, err
}

func scanAgent(scan func(...any) error) (palyra.Agent, palyra.Digest, error) {
	var a palyra.Agent
	var digest palyra.Digest
	var added, removed int64
	err := scan(&a.Principal, &a.Owner, &digest, &added, &removed)
	a.AddedAt, a.RemovedAt = moment(added), moment(removed)
	return a, digest, err
}

func taken(name string) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the name %s is taken", name).
		WithRemedy("choose another; the name of a removed agent is not given again")
}

func badToken() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the agent token is not valid, or its agent was removed").
		WithRemedy("have an operator add the agent again under a new name: palyra agent add")
}
