package registry

import (
	"context"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/store"
)

// Enable makes a skill active, with what an operator grants of what it asks for.
func (r *Registry) Enable(ctx context.Context, e skill.Enabling) (skill.Skill, error) {
	r.change.Lock()
	defer r.change.Unlock()
	s, err := r.Find(e.ID)
	if err != nil {
		return s, err
	}
	if err := r.permit(ctx, e.By, s.ID); err != nil {
		return s, err
	}
	granted := e.Granted.Tidy()
	switch more := granted.Missing(s.Capabilities); {
	case e.Digest != s.Digest:
		return s, palyra.Errorf(palyra.Conflict, palyra.ReasonStaleDigest,
			"the skill %s is another package than the one that was looked at", s.ID).
			WithRemedy("look at it again: 'palyra skills show %s'", s.ID)
	case len(more) > 0:
		return s, palyra.Errorf(palyra.Invalid, skill.ReasonDenied, "the skill %s does not ask for %s", s.ID,
			palyra.Clip(strings.Join(more, ", "), 300)).
			WithRemedy("grant what it asks for, or less: 'palyra skills show %s'", s.ID)
	}
	p, err := r.open(ctx, s) // trusted at this moment
	if err != nil {
		return s, err
	}
	s.Manifest = p.Manifest
	err = r.put(ctx, "enabled", s, func(n *skill.Skill) { n.State, n.Why, n.Granted = skill.Active, "", granted }, e.By)
	if err != nil {
		return s, err
	}
	return r.Find(s.ID)
}

// Quarantine takes a skill's tools away. What it was granted stays known, and counts again when it is enabled with it.
func (r *Registry) Quarantine(ctx context.Context, id string, by skill.By) (skill.Skill, error) {
	r.change.Lock()
	defer r.change.Unlock()
	s, err := r.Find(id)
	if err != nil {
		return s, err
	}
	if err := r.permit(ctx, by, s.ID); err != nil {
		return s, err
	}
	if s.State != skill.Active {
		return s, nil
	}
	err = r.put(ctx, "quarantined", s, func(n *skill.Skill) {
		n.State, n.Why = skill.Quarantined, "put there by "+string(by.Principal)
	}, by)
	if err != nil {
		return s, err
	}
	return r.Find(id)
}

// Remove takes a skill away with its package. Whose its id is stays known, and so does what its modules kept, for the next
// version of it, unless forget says otherwise.
func (r *Registry) Remove(ctx context.Context, id string, forget bool, by skill.By) error {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.Lock()
	known := r.known[id]
	r.mu.Unlock()
	if known == nil || known.State == removed && !forget {
		_, err := r.Find(id)
		return err
	}
	s := *known
	if err := r.permit(ctx, by, s.ID); err != nil {
		return err
	}
	if s.State != removed {
		if err := r.remove(ctx, &s, by); err != nil {
			return err
		}
	}
	if !forget {
		return nil
	}
	return r.forget(ctx, s, by)
}

func (r *Registry) remove(ctx context.Context, s *skill.Skill, by skill.By) error {
	s.State, s.Why, s.Granted, s.Bytes = removed, "", skill.Capabilities{}, 0
	err := r.DB.Write(ctx, "skill.removed", func(tx *store.Tx) error {
		if err := r.write(tx, "removed", *s, by); err != nil {
			return err
		}
		return sweep(tx)
	})
	if err != nil {
		return fmt.Errorf("skills: remove: %w", err)
	}
	return r.settle(*s)
}

// forget lets go of the id of a skill that was removed, and of what its modules kept. No call of it runs any more.
func (r *Registry) forget(ctx context.Context, s skill.Skill, by skill.By) error {
	err := r.DB.Write(ctx, "skill.forgotten", func(tx *store.Tx) error {
		if err := r.tell(tx, "forgotten", s, by); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM skills WHERE id = ?`, s.ID); err != nil || r.Forget == nil {
			return err
		}
		return r.Forget(tx, ownerOf(s))
	})
	if err != nil {
		return fmt.Errorf("skills: forget: %w", err)
	}
	r.mu.Lock()
	delete(r.known, s.ID)
	r.mu.Unlock()
	return nil
}
