package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/store"
)

// loadAll reads skills and publishers.
func (r *Registry) loadAll(ctx context.Context) (all []skill.Skill, _ error) {
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		err := tx.Each(`SELECT key_id, name, public_key, added_by, added_at, revoked_at FROM skill_publishers`, nil,
			func(scan func(...any) error) error {
				var p skill.Publisher
				var added, revoked int64
				if err := scan(&p.KeyID, &p.Name, &p.PublicKey, &p.AddedBy, &added, &revoked); err != nil {
					return err
				}
				p.AddedAt, p.RevokedAt = store.Moment(added), store.Moment(revoked)
				r.keys[p.KeyID] = p
				return nil
			})
		if err != nil {
			return err
		}
		return tx.Each(`SELECT id, version, publisher, key_id, digest, state, granted, why, installed_by, installed_at, bytes FROM skills ORDER BY id`,
			nil, func(scan func(...any) error) error {
				var s skill.Skill
				var granted string
				var at int64
				if err := scan(&s.ID, &s.Version, &s.Publisher, &s.KeyID, &s.Digest, &s.State, &granted, &s.Why, &s.InstalledBy, &at,
					&s.Bytes); err != nil {
					return err
				}
				s.InstalledAt = store.Moment(at)
				var terms []string
				err := json.Unmarshal([]byte(granted), &terms)
				if err != nil {
					return err
				}
				if s.Granted, err = skill.CapabilitiesOf(terms); err != nil {
					return err
				}
				all = append(all, s)
				return nil
			})
	})
	if err != nil {
		return nil, fmt.Errorf("skills: load: %w", err)
	}
	return all, nil
}

// write puts a skill's row and its line into a transaction.
func (r *Registry) write(tx *store.Tx, change string, s skill.Skill, by skill.By) error {
	granted, err := json.Marshal(s.Granted.Terms())
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO skills (id, version, publisher, key_id, digest, state, granted, why, installed_by, installed_at, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET version = excluded.version, publisher = excluded.publisher,
		key_id = excluded.key_id, digest = excluded.digest, state = excluded.state, granted = excluded.granted, why = excluded.why,
		installed_by = excluded.installed_by, installed_at = excluded.installed_at, bytes = excluded.bytes`,
		s.ID, s.Version, s.Publisher, s.KeyID, string(s.Digest), string(s.State), string(granted), s.Why, string(s.InstalledBy),
		store.Nanos(s.InstalledAt), s.Bytes)
	if err != nil {
		return err
	}
	return r.tell(tx, change, s, by)
}

// tell journals what became of a skill.
func (r *Registry) tell(tx *store.Tx, change string, s skill.Skill, by skill.By) error {
	_, err := r.Journal.Append(tx, palyra.SkillChanged{
		Change: change, Skill: s.ID, Version: s.Version, Publisher: s.Publisher, KeyID: s.KeyID, Package: s.Digest, State: string(s.State),
		Granted: s.Granted.Terms(), Why: s.Why, By: by.Principal, Signature: by.Signature,
	})
	return err
}

// put changes a skill, durably, then what is known of it, then what is offered. The caller holds change.
func (r *Registry) put(ctx context.Context, change string, s skill.Skill, set func(*skill.Skill), by skill.By) error {
	set(&s)
	err := r.DB.Write(ctx, "skill."+change, func(tx *store.Tx) error { return r.write(tx, change, s, by) })
	if err != nil {
		return fmt.Errorf("skills: %s: %w", change, err)
	}
	return r.settle(s)
}

// settle makes known what is durable, and ends what may not go on under it.
func (r *Registry) settle(all ...skill.Skill) (err error) {
	r.mu.Lock()
	for _, s := range all {
		r.known[s.ID] = &s
	}
	r.mu.Unlock()
	for _, s := range all {
		err = errors.Join(err, r.offer(s))
	}
	r.endTaken()
	return err
}

// List returns the installed skills by their ids.
func (r *Registry) List(context.Context) ([]skill.Skill, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []skill.Skill{}
	for _, s := range r.known {
		if s.State != removed {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b skill.Skill) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}
