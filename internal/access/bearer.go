package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"

	"palyra"
	"palyra/internal/commandagent"
	"palyra/internal/store"
)

// Bearer returns the principal that a token speaks for. An unknown, expired or revoked token, and one whose
// agent or person is gone, is Denied, all alike. The token is looked up by its digest, so that the time a
// look-up takes says nothing about it.
func (r *Registry) Bearer(ctx context.Context, token palyra.Secret) (palyra.Bearer, error) {
	var digest palyra.Digest
	var ok bool
	_ = token.Use(func(b []byte) error {
		digest, ok = parseToken(b)
		return nil
	})
	if !ok {
		return palyra.Bearer{}, badToken()
	}
	var b palyra.Bearer
	var id string
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		b, err = agentBearer(tx, digest)
		if errors.Is(err, store.ErrNoRows) {
			b, id, err = r.tokenBearer(tx, digest)
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrNoRows) || palyra.CodeOf(err) == palyra.Denied:
		return palyra.Bearer{}, badToken()
	case err != nil:
		return palyra.Bearer{}, err
	}
	if id != "" {
		r.note(r.used, id)
	}
	return b, nil
}

// agentBearer is the agent whose own token it is.
func agentBearer(tx *store.Tx, digest palyra.Digest) (palyra.Bearer, error) {
	a, stored, err := scanAgent(func(dest ...any) error {
		return tx.Get(agentColumns+` WHERE token_sha256 = ?`, []any{string(digest)}, dest...)
	})
	if err != nil {
		return palyra.Bearer{}, err
	}
	if subtle.ConstantTimeCompare([]byte(stored), []byte(digest)) != 1 || !a.RemovedAt.IsZero() {
		return palyra.Bearer{}, badToken()
	}
	u, err := liveUser(tx, a.Owner)
	return palyra.Bearer{
		Principal: a.Principal, Owner: a.Owner, Role: palyra.RoleAgent, Cap: palyra.RoleAgent, Within: u.Workspaces,
		CredentialID: string(a.Principal),
	}, err
}

// tokenBearer is whom an API token speaks for. That the token's id is made of
// its digest ties the row to the journal, which knows the id only.
func (r *Registry) tokenBearer(tx *store.Tx, digest palyra.Digest) (palyra.Bearer, string, error) {
	t, stored, err := scanToken(func(dest ...any) error {
		return tx.Get(tokenColumns+` WHERE token_sha256 = ?`, []any{string(digest)}, dest...)
	})
	if err != nil {
		return palyra.Bearer{}, "", err
	}
	if subtle.ConstantTimeCompare([]byte(stored), []byte(digest)) != 1 || t.ID != tokenID(digest) ||
		!t.RevokedAt.IsZero() || !r.Now().Before(t.ExpiresAt) || len(t.Scopes) == 0 {
		return palyra.Bearer{}, "", badToken()
	}
	person, err := personOf(tx, t.Principal)
	if err != nil {
		return palyra.Bearer{}, "", err
	}
	u, err := liveUser(tx, person)
	if err != nil {
		return palyra.Bearer{}, "", err
	}
	b := palyra.Bearer{
		Principal: t.Principal, Role: u.Role, Cap: u.Role, Scopes: t.Scopes, CredentialID: "token:" + t.ID,
		ExpiresAt: t.ExpiresAt,
	}
	if t.Principal.IsAgent() {
		b.Owner, b.Role, b.Cap = person, palyra.RoleAgent, palyra.RoleAgent
	}
	var some bool
	if b.Within, some = intersectReach(t.Workspaces, u.Workspaces); !some {
		return palyra.Bearer{}, "", badToken() // an empty list would mean everywhere
	}
	return b, t.ID, nil
}

// personOf returns the person behind a principal: a user is that themselves, an
// agent has an owner. An agent that is gone is Denied.
func personOf(tx *store.Tx, p palyra.Principal) (palyra.Principal, error) {
	var owner palyra.Principal
	var err error
	name := p.Name()
	switch {
	case p.Kind() == "user":
		return p, nil
	case !p.IsAgent():
		err = store.ErrNoRows
	case name == LocalName:
		owner, err = firstOwner(tx)
	case isDeviceAgent(p):
		err = tx.Get(`SELECT principal FROM access_devices WHERE name = ? AND revoked_at = 0`,
			[]any{strings.TrimPrefix(name, palyra.DeviceAgent)}, &owner)
	case commandagent.Is(p): // the name may have been an agent's before it was reserved
		err = tx.Get(`SELECT owner FROM access_agents WHERE principal = ? AND removed_at = 0`, []any{string(p)}, &owner)
		if errors.Is(err, store.ErrNoRows) {
			return palyra.Principal("user:" + strings.TrimPrefix(name, commandagent.Prefix)), nil
		}
	default:
		err = tx.Get(`SELECT owner FROM access_agents WHERE principal = ? AND removed_at = 0`, []any{string(p)}, &owner)
	}
	if errors.Is(err, store.ErrNoRows) {
		err = palyra.Errorf(palyra.Denied, palyra.ReasonNoCredential, "%s is not known here, or was removed", palyra.Clip(string(p), 128))
	}
	return owner, err
}

func badToken() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential,
		"the token is not valid: unknown, expired, revoked, or whom it speaks for was removed").
		WithRemedy("have a new one made: palyra agent add, or palyra access token add")
}

// isDeviceAgent reports whether p is the agent of a device.
func isDeviceAgent(p palyra.Principal) bool {
	return p.IsAgent() && strings.HasPrefix(p.Name(), palyra.DeviceAgent)
}
