package access

import (
	"context"
	"errors"
	"slices"
	"time"

	"palyra"
	"palyra/internal/commandagent"
	"palyra/internal/store"
)

const tokenColumns = `SELECT id, name, principal, scopes, workspaces, added_at, added_by, expires_at, used_at, revoked_at, revoked_by, token_sha256
	FROM access_tokens`

// How long a token may hold.
const (
	minTTL = time.Minute
	maxTTL = 365 * 24 * time.Hour
)

// AddToken makes an API token that speaks for a person (empty: the signer) or an agent for ttl, and returns it: it
// exists nowhere else. It holds the scopes that t names, which the principal and the signer must hold both; a
// person's only look, because whatever changes something is signed.
func (r *Registry) AddToken(ctx context.Context, t palyra.Token, ttl time.Duration, sig palyra.Signature) (palyra.Token,
	palyra.Secret, error,
) {
	t, err := r.checkedToken(t, ttl)
	if err != nil {
		return palyra.Token{}, palyra.Secret{}, err
	}
	secret, digest := newToken()
	t.ID = tokenID(digest)
	err = r.DB.Write(ctx, "token.added", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		if t.AddedBy = by.Principal; t.Principal == "" {
			t.Principal = by.Principal
		}
		if err := grantable(tx, by, t); err != nil {
			return err
		}
		if err := insertToken(tx, t, digest); err != nil {
			return err
		}
		return r.record(tx, palyra.TokenAdded{Token: t, Signature: sig})
	})
	if err != nil {
		secret.Destroy()
		return palyra.Token{}, palyra.Secret{}, err
	}
	return t, secret, nil
}

func (r *Registry) checkedToken(t palyra.Token, ttl time.Duration) (palyra.Token, error) {
	switch {
	case !goodName(t.Name):
		return palyra.Token{}, invalid("a token's name has 1 to 64 characters of a-z, 0-9, '.', '_', '-'")
	case ttl < minTTL || ttl > maxTTL:
		return palyra.Token{}, invalid("a token holds for a minute at least and 365 days at most")
	case len(t.Scopes) == 0 || len(t.Scopes) > len(views)+len(acts):
		return palyra.Token{}, invalid("a token needs scopes: permissions that it holds")
	}
	for _, s := range t.Scopes {
		if !slices.Contains(views, s) && !slices.Contains(acts, s) {
			return palyra.Token{}, invalid("there is no permission " + palyra.Clip(string(s), 64))
		}
	}
	paths, err := goodPaths(t.Workspaces)
	now := r.Now().UTC()
	return palyra.Token{
		Name: t.Name, Principal: t.Principal, Scopes: sorted(t.Scopes), Workspaces: paths, AddedAt: now, ExpiresAt: now.Add(ttl),
	}, err
}

// grantable checks that a token holds no more than its principal and the signer.
func grantable(tx *store.Tx, by giver, t palyra.Token) error {
	person, err := personOf(tx, t.Principal)
	if palyra.CodeOf(err) == palyra.Denied || t.Principal == "agent:"+LocalName || isDeviceAgent(t.Principal) ||
		commandagent.Is(t.Principal) {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no person or named agent is called %s",
			palyra.Clip(string(t.Principal), 128)).
			WithRemedy("make them known first: palyra agent add NAME for agent:NAME, palyra access user add for a person")
	}
	if err != nil {
		return err
	}
	if person != by.Principal && !by.owner() {
		return onlyOwner()
	}
	u, err := knownUser(tx, person)
	if err != nil {
		return err
	}
	role := u.Role
	if t.Principal.IsAgent() {
		role = palyra.RoleAgent
	}
	for _, s := range t.Scopes {
		switch {
		case !slices.Contains(roles[role], s) || !by.holds(s):
			return tooMuch("the scope " + string(s))
		case role != palyra.RoleAgent && !slices.Contains(views, s):
			return tooMuch("a person's token only looks, and " + string(s) + " is more")
		}
	}
	reach, some := intersectReach(t.Workspaces, u.Workspaces)
	if !some || !containsReach(reach, by.user.Workspaces) || len(t.Workspaces) > 0 && !containsReach(t.Workspaces, u.Workspaces) {
		return tooMuch("the workspaces")
	}
	return nil
}

func insertToken(tx *store.Tx, t palyra.Token, digest palyra.Digest) error {
	var n int64
	err := tx.Get(`SELECT COUNT(*) FROM access_tokens WHERE principal = ? AND name = ? AND revoked_at = 0 AND expires_at > ?`,
		[]any{string(t.Principal), t.Name, t.AddedAt.UnixNano()}, &n)
	if err != nil {
		return err
	}
	if n > 0 {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "%s has a token called %s", t.Principal, t.Name).
			WithRemedy("choose another name, or revoke that one first")
	}
	_, err = tx.Exec(`INSERT INTO access_tokens (id, name, principal, scopes, workspaces, token_sha256, added_at, added_by, expires_at,
		used_at, revoked_at, revoked_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '')`,
		t.ID, t.Name, string(t.Principal), encodeList(t.Scopes), encodeList(t.Workspaces), string(digest), t.AddedAt.UnixNano(),
		string(t.AddedBy),
		t.ExpiresAt.UnixNano())
	return err
}

// Tokens lists every token ever made, in that order, but not itself.
func (r *Registry) Tokens(ctx context.Context) ([]palyra.Token, error) {
	var all []palyra.Token
	err := r.DB.Read(ctx, func(tx *store.Tx) (err error) {
		all, err = tokens(tx, nil)
		return err
	})
	for i := range all {
		all[i].UsedAt = r.latest(r.used, all[i].ID, all[i].UsedAt)
	}
	return all, err
}

// tokens lists the tokens; check, if any, sees each with its digest.
func tokens(tx *store.Tx, check func(palyra.Token, palyra.Digest) error) (all []palyra.Token, err error) {
	err = tx.Each(tokenColumns+` ORDER BY added_at, id`, nil, func(scan func(...any) error) error {
		t, digest, err := scanToken(scan)
		if err == nil && check != nil {
			err = check(t, digest)
		}
		all = append(all, t)
		return err
	})
	return all, err
}

// RevokeToken ends a token at once: one's own or one's agent's, or that of
// somebody who has no more than the signer.
func (r *Registry) RevokeToken(ctx context.Context, id string, sig palyra.Signature) error {
	err := r.DB.Write(ctx, "token.revoked", func(tx *store.Tx) error {
		by, err := allowed(tx, sig, manage)
		if err != nil {
			return err
		}
		t, _, err := scanToken(func(dest ...any) error { return tx.Get(tokenColumns+` WHERE id = ?`, []any{id}, dest...) })
		if errors.Is(err, store.ErrNoRows) || err == nil && !t.RevokedAt.IsZero() {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no token %s, or it is revoked already", palyra.Clip(id, 64)).
				WithRemedy("see 'palyra access token list'")
		}
		if err != nil {
			return err
		}
		person, err := personOf(tx, t.Principal)
		if err != nil {
			return err
		}
		if err := by.mayEndFor(tx, person); err != nil {
			return err
		}
		return r.endToken(tx, id, by.Principal, sig)
	})
	if err == nil {
		r.ended([]string{"token:" + id}, "")
	}
	return err
}

func scanToken(scan func(...any) error) (palyra.Token, palyra.Digest, error) {
	var t palyra.Token
	var digest palyra.Digest
	var scopes, workspaces string
	var added, expires, used, gone int64
	if err := scan(&t.ID, &t.Name, &t.Principal, &scopes, &workspaces, &added, &t.AddedBy, &expires, &used, &gone, &t.RevokedBy,
		&digest); err != nil {
		return palyra.Token{}, "", err
	}
	t.AddedAt, t.ExpiresAt, t.UsedAt, t.RevokedAt = moment(added), moment(expires), moment(used), moment(gone)
	return t, digest, errors.Join(decodeList(scopes, &t.Scopes), decodeList(workspaces, &t.Workspaces))
}
