package registry

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/store"
)

// Trust lets skills be installed that a key signed, under a publisher's name.
func (r *Registry) Trust(ctx context.Context, name, key string, by skill.By) (skill.Publisher, error) {
	pub, err := archive.ParsePublic(key)
	if err != nil {
		return skill.Publisher{}, err
	}
	if !skill.ValidID(name) {
		return skill.Publisher{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "that is not the name of a publisher").
			WithRemedy("use the one in the package: 'palyra skills verify FILE' shows it")
	}
	if err := r.permit(ctx, by, "publisher:"+name); err != nil {
		return skill.Publisher{}, err
	}
	r.change.Lock()
	defer r.change.Unlock()
	p := skill.Publisher{
		Name: name, KeyID: archive.KeyID(pub), PublicKey: archive.PublicText(pub), AddedBy: by.Principal, AddedAt: r.Now().UTC(),
	}
	if err := r.mayTrust(p); err != nil {
		return p, err
	}
	return p, r.putPublisher(ctx, p, by)
}

// mayTrust refuses a key that has another name, one that was revoked, and too many.
func (r *Registry) mayTrust(p skill.Publisher) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.keys[p.KeyID]
	switch {
	case known && !old.RevokedAt.IsZero():
		return palyra.Errorf(palyra.Denied, skill.ReasonUntrusted, "the key %s was revoked, and stays so", p.KeyID).
			WithRemedy("have the publisher sign with a new key")
	case known && old.Name != p.Name:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the key %s is the publisher %s already", p.KeyID, old.Name).
			WithRemedy("use that name")
	case known:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the key %s is trusted already", p.KeyID).
			WithRemedy("see 'palyra skills trust list'")
	case len(r.keys) >= maxPublishers:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "there are %d keys of publishers, which is the most", maxPublishers).
			WithRemedy("a key that was revoked stays on the list: begin a new state, or use a key that is there")
	}
	return nil
}

// Revoke takes the trust in a key back. Its skills are not offered from this moment on, whether they were active or not.
func (r *Registry) Revoke(ctx context.Context, keyID string, by skill.By) (skill.Publisher, error) {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.Lock()
	p, known := r.keys[keyID]
	r.mu.Unlock()
	if !known {
		return p, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no publisher's key %q", palyra.Clip(keyID, 64)).
			WithRemedy("see 'palyra skills trust list'")
	}
	if err := r.permit(ctx, by, "publisher:"+p.Name); err != nil {
		return p, err
	}
	if !p.RevokedAt.IsZero() {
		return p, nil
	}
	p.RevokedAt = r.Now().UTC()
	var hit []skill.Skill
	all, _ := r.List(ctx)
	for _, s := range all {
		if s.KeyID == keyID {
			s.State, s.Why = skill.Revoked, "the key of its publisher was revoked"
			hit = append(hit, s)
		}
	}
	if err := r.putPublisher(ctx, p, by, hit...); err != nil {
		return p, err
	}
	return p, nil
}

// putPublisher makes a key's standing durable, and with it that of its skills.
func (r *Registry) putPublisher(ctx context.Context, p skill.Publisher, by skill.By, hit ...skill.Skill) error {
	err := r.DB.Write(ctx, "publisher.changed", func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO skill_publishers (key_id, name, public_key, added_by, added_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (key_id) DO UPDATE SET revoked_at = excluded.revoked_at`,
			p.KeyID, p.Name, p.PublicKey, string(p.AddedBy), store.Nanos(p.AddedAt), store.Nanos(p.RevokedAt))
		if err != nil {
			return err
		}
		_, err = r.Journal.Append(tx, palyra.PublisherChanged{
			Name: p.Name, KeyID: p.KeyID, PublicKey: p.PublicKey, Trusted: p.RevokedAt.IsZero(), By: by.Principal, Signature: by.Signature,
		})
		for _, s := range hit {
			if err == nil {
				err = r.write(tx, "revoked", s, by)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("skills: trust: %w", err)
	}
	r.mu.Lock()
	r.keys[p.KeyID] = p
	r.mu.Unlock()
	return r.settle(hit...)
}

// Publishers lists the keys, those that were revoked among them.
func (r *Registry) Publishers(context.Context) ([]skill.Publisher, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []skill.Publisher{}
	for _, p := range r.keys {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b skill.Publisher) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.AddedAt.Compare(b.AddedAt))
	})
	return out, nil
}

// trusted returns the key that may sign for a publisher.
func (r *Registry) trusted(publisher, keyID string) (ed25519.PublicKey, error) {
	r.mu.Lock()
	p, known := r.keys[keyID]
	r.mu.Unlock()
	switch {
	case !known:
		return nil, palyra.Errorf(palyra.Denied, skill.ReasonUntrusted, "nobody here trusts the key %s, which signed it", palyra.Clip(keyID, 64)).
			WithRemedy("compare the key with what the publisher says, then: palyra skills trust add %s KEY", palyra.Clip(publisher, 64))
	case !p.RevokedAt.IsZero():
		return nil, palyra.Errorf(palyra.Denied, skill.ReasonUntrusted, "the key %s was revoked at %s", keyID, p.RevokedAt.Format(time.RFC3339)).
			WithRemedy("have the publisher sign with a key that is trusted")
	case p.Name != publisher:
		return nil, palyra.Errorf(palyra.Denied, skill.ReasonPublisher, "the key %s is %s's, and the package says that it is of %s",
			keyID, p.Name,
			palyra.Clip(publisher, 64)).
			WithRemedy("have %s sign it with their own key", palyra.Clip(publisher, 64))
	}
	return archive.ParsePublic(p.PublicKey)
}
