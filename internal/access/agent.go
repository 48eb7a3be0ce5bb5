package access

import (
	"context"
	"errors"
	"strings"

	"palyra"
	"palyra/internal/commandagent"
	"palyra/internal/store"
)

// LocalName is the agent that needs no token: whoever comes through the agent door without one.
const LocalName = "local"

const agentColumns = `SELECT principal, owner, token_sha256, added_at, removed_at FROM access_agents`

// AddAgent names an agent and returns its token, which exists nowhere else. An
// empty owner means the signer; only an owner may name somebody else.
func (r *Registry) AddAgent(ctx context.Context, name string, owner palyra.Principal, sig palyra.Signature) (palyra.Agent,
	palyra.Secret, error,
) {
	if !goodName(name) {
		return palyra.Agent{}, palyra.Secret{}, invalid("an agent's name has 1 to 64 characters of a-z, 0-9, '.', '_', '-'")
	}
	if name == LocalName {
		return palyra.Agent{}, palyra.Secret{}, nameTakenError(name)
	}
	if strings.HasPrefix(name, palyra.DeviceAgent) {
		return palyra.Agent{}, palyra.Secret{}, invalid("names that begin with " + palyra.DeviceAgent + " are those of paired devices' agents")
	}
	if strings.HasPrefix(name, commandagent.Prefix) {
		return palyra.Agent{}, palyra.Secret{}, invalid("names that begin with " + commandagent.Prefix + " are those of people's own commands")
	}
	token, digest := newToken()
	a := palyra.Agent{Principal: palyra.Principal("agent:" + name), Owner: owner, AddedAt: r.Now().UTC()}
	err := r.DB.Write(ctx, "agent.added", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
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
			return nameTakenError(name)
		}
		return r.record(tx, palyra.AgentAdded{Agent: a, Token: tokenID(digest), Signature: sig})
	})
	if err != nil {
		token.Destroy()
		return palyra.Agent{}, palyra.Secret{}, err
	}
	return a, token, nil
}

// ownerFor checks that an agent's owner is the signer, or somebody known that an owner names.
func ownerFor(tx *store.Tx, by giver, owner palyra.Principal) (palyra.Principal, error) {
	if owner == "" || owner == by.Principal {
		return by.Principal, nil
	}
	if !by.owner() {
		return "", onlyOwner()
	}
	u, err := knownUser(tx, owner)
	if err != nil {
		return "", err
	}
	return owner, by.mayGive(palyra.RoleAgent, u.Workspaces)
}

// RemoveAgent ends an agent at once, with the tokens that speak for it: one's own,
// or that of somebody who has no more than the signer.
func (r *Registry) RemoveAgent(ctx context.Context, p palyra.Principal, sig palyra.Signature) error {
	var over []string
	err := r.DB.Write(ctx, "agent.removed", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		var owner palyra.Principal
		err = tx.Get(`SELECT owner FROM access_agents WHERE principal = ? AND removed_at = 0`, []any{string(p)}, &owner)
		if errors.Is(err, store.ErrNoRows) {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no agent %s", palyra.Clip(string(p), 128)).
				WithRemedy("see 'palyra agent list'")
		}
		if err != nil {
			return err
		}
		if err := by.mayEndFor(tx, owner); err != nil {
			return err
		}
		if over, err = credentials(tx, p); err != nil {
			return err
		}
		return r.endAgent(tx, string(p), by.Principal, sig)
	})
	if err == nil {
		r.ended(over, "")
	}
	return err
}

// Agents lists every named agent, removed ones too, in the order of their names.
func (r *Registry) Agents(ctx context.Context) ([]palyra.Agent, error) {
	var all []palyra.Agent
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		all, err = agents(tx)
		return err
	})
	return all, err
}

func agents(tx *store.Tx) (all []palyra.Agent, err error) {
	err = tx.Each(agentColumns+` ORDER BY principal`, nil, func(scan func(...any) error) error {
		a, _, err := scanAgent(scan)
		all = append(all, a)
		return err
	})
	return all, err
}

// LocalAgent returns agent:local, which belongs to the first owner.
func (r *Registry) LocalAgent(ctx context.Context) (palyra.Agent, error) {
	a, err := r.local.Get(ctx, struct{}{}, func(tx *store.Tx) (palyra.Agent, error) {
		owner, err := firstOwner(tx)
		return palyra.Agent{Principal: "agent:" + LocalName, Owner: owner}, err
	})
	if errors.Is(err, store.ErrNoRows) {
		return palyra.Agent{}, palyra.Errorf(palyra.Denied, palyra.ReasonNoCredential, "this state has no owner yet").
			WithRemedy("run 'palyra up'")
	}
	return a, err
}

// typing is a person with the role of the key by which they are known.
type typing struct {
	person palyra.Principal
	role   palyra.Role
}

// CommandAgent returns the agent of the commands that a user types: that of the person whose key it is. A
// user who is not known, or may not start runs, gets agent:local, as at the other socket; so does one whose
// name an agent took before these had names.
func (r *Registry) CommandAgent(ctx context.Context, uid int64) (palyra.Agent, error) {
	person, err := r.Person(ctx, uid)
	if palyra.CodeOf(err) == palyra.Denied {
		return r.LocalAgent(ctx)
	}
	if err != nil {
		return palyra.Agent{}, err
	}
	a := commandagent.Of(person.Principal)
	local, err := r.commands.Get(ctx, typing{person.Principal, person.Role}, func(tx *store.Tx) (bool, error) {
		owner, err := personOf(tx, a.Principal)
		if err != nil {
			return false, err
		}
		u, err := liveUser(tx, person.Principal)
		local := owner != person.Principal || palyra.CodeOf(err) == palyra.Denied || !r.Permits(u.Role, palyra.PermitRunsStart, true) ||
			!r.Permits(person.Role, palyra.PermitRunsStart, true)
		if palyra.CodeOf(err) == palyra.Denied {
			err = nil
		}
		return local, err
	})
	if local && err == nil {
		return r.LocalAgent(ctx)
	}
	return a, err
}

// firstOwner is the owner of agents that come without a name.
func firstOwner(tx *store.Tx) (owner palyra.Principal, err error) {
	err = tx.Get(`SELECT o.principal FROM access_operators o JOIN access_users u ON u.principal = o.principal
		WHERE o.role = '`+string(palyra.RoleOwner)+`' AND o.removed_at = 0 AND u.role = o.role AND u.removed_at = 0 ORDER BY o.seq LIMIT 1`,
		nil, &owner)
	return owner, err
}

// localAgentEnds returns a function that lists what ends when the first owner has become somebody else:
// agent:local, with the sessions and leases it had as the other's agent.
func localAgentEnds(tx *store.Tx) (ends func() ([]string, error), err error) {
	before, err := firstOwner(tx)
	if errors.Is(err, store.ErrNoRows) {
		err = nil
	}
	return func() ([]string, error) {
		after, err := firstOwner(tx)
		if err != nil || after == before {
			return nil, err
		}
		return []string{"agent:" + LocalName}, nil
	}, err
}

func scanAgent(scan func(...any) error) (palyra.Agent, palyra.Digest, error) {
	var a palyra.Agent
	var digest palyra.Digest
	var added, removed int64
	err := scan(&a.Principal, &a.Owner, &digest, &added, &removed)
	a.AddedAt, a.RemovedAt = moment(added), moment(removed)
	return a, digest, err
}

func nameTakenError(name string) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the name %s is taken", name).
		WithRemedy("choose another; the name of a removed agent is not given again")
}
