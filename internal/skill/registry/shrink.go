package registry

import (
	"context"
	"fmt"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/store"
)

// runKind counts the runs of a package among what they used.
const runKind = "run"

// Used keeps what a run of a skill's package needed, so that it can be granted no more than that.
func (r *Registry) Used(ctx context.Context, digest palyra.Digest, used skill.Capabilities) error {
	return r.DB.Write(ctx, "skill.used", func(tx *store.Tx) error {
		note := func(kind, value string) error {
			_, err := tx.Exec(`INSERT INTO skill_uses (digest, kind, value, count) VALUES (?, ?, ?, 1)
				ON CONFLICT (digest, kind, value) DO UPDATE SET count = skill_uses.count + 1`, string(digest), kind, value)
			return err
		}
		if err := note(runKind, ""); err != nil {
			return err
		}
		for _, kind := range skill.Kinds() {
			for _, v := range used.Of(kind) {
				if err := note(kind, v); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// uses are what the recorded runs of a package needed, and how many there were.
func (r *Registry) uses(ctx context.Context, digest palyra.Digest) (runs int64, used skill.Capabilities, err error) {
	err = r.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT kind, value, count FROM skill_uses WHERE digest = ?`, []any{string(digest)}, func(scan func(...any) error) error {
			var kind, value string
			var n int64
			if err := scan(&kind, &value, &n); err != nil {
				return err
			}
			if kind == runKind {
				runs = n
				return nil
			}
			used = used.Add(kind, value)
			return nil
		})
	})
	return runs, used.Tidy(), err
}

// Shrink says what of a skill's grant its recorded runs needed; with apply nothing else is granted any more.
func (r *Registry) Shrink(ctx context.Context, id string, apply bool, by skill.By) (skill.Shrinking, error) {
	r.change.Lock()
	defer r.change.Unlock()
	s, err := r.Find(id)
	if err != nil {
		return skill.Shrinking{}, err
	}
	if err := r.permit(ctx, by, s.ID); err != nil {
		return skill.Shrinking{}, err
	}
	runs, used, err := r.uses(ctx, s.Digest)
	if err != nil {
		return skill.Shrinking{}, fmt.Errorf("skills: shrink: %w", err)
	}
	out := skill.Shrinking{ID: s.ID, Runs: runs, Granted: s.Granted, Needed: used.Within(s.Granted).Least()}
	switch {
	case runs == 0:
		return out, palyra.Errorf(palyra.Conflict, skill.ReasonNoRuns,
			"the skill %s has not run yet as it is installed, so it is not known what it needs",
			s.ID).WithRemedy("have it do its work a few times, then shrink it")
	case !apply || len(s.Granted.Missing(out.Needed)) == 0:
		return out, nil
	}
	out.Applied = true
	return out, r.put(ctx, "shrunk", s, func(n *skill.Skill) { n.Granted = out.Needed }, by)
}
