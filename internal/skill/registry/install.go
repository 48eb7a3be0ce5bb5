package registry

import (
	"context"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/store"
)

// Install verifies a package and takes it in: a new skill into quarantine; an update in the place of what is installed, active
// where that was and it asks for nothing that was not granted.
func (r *Registry) Install(ctx context.Context, a skill.Addition) (skill.Skill, error) {
	p, err := archive.Open(a.Package)
	if err != nil {
		return skill.Skill{}, err
	}
	keyID, err := r.verify(p)
	if err != nil {
		return skill.Skill{}, err
	}
	if err := r.permit(ctx, a.By, p.Manifest.ID); err != nil {
		return skill.Skill{}, err
	}
	s := skill.Skill{
		Manifest: p.Manifest, State: skill.Quarantined, Why: "nobody has enabled it yet", Digest: p.Digest, KeyID: keyID,
		InstalledBy: a.By.Principal, InstalledAt: r.Now().UTC(), Bytes: p.Bytes,
	}
	for _, t := range tools(s) {
		if err := r.Catalog.Usable(t); err != nil {
			return skill.Skill{}, palyra.Errorf(palyra.Invalid, skill.ReasonManifest, "its tool %s cannot be offered: %s", t.Name,
				palyra.Clip(palyra.AsError(err).Text, 200)).
				WithRemedy("have its publisher correct the tool's schema; nothing was installed")
		}
	}
	if err := r.checkModules(ctx, p); err != nil {
		return skill.Skill{}, err
	}
	r.change.Lock()
	defer r.change.Unlock()
	if _, err := r.verify(p); err != nil { // compiling took its time, and the key may have been revoked meanwhile
		return skill.Skill{}, err
	}
	change, err := r.replace(&s, a.Widen)
	if err != nil {
		return skill.Skill{}, err
	}
	err = r.DB.Write(ctx, "skill.installed", func(tx *store.Tx) error {
		if _, err := tx.Exec(`INSERT INTO skill_packages (digest, data) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING`, string(s.Digest),
			a.Package); err != nil {
			return err
		}
		if err := r.write(tx, change, s, a.By); err != nil {
			return err
		}
		return sweep(tx)
	})
	if err != nil {
		return skill.Skill{}, fmt.Errorf("skills: install: %w", err)
	}
	return s, r.settle(s)
}

// sweep removes packages that no skill is any more, and what is known of their runs.
func sweep(tx *store.Tx) error {
	for _, table := range []string{"skill_packages", "skill_uses"} {
		_, err := tx.Exec(`DELETE FROM ` + table + ` WHERE digest NOT IN (SELECT digest FROM skills WHERE state <> 'removed')`)
		if err != nil {
			return err
		}
	}
	return nil
}

// verify returns the id of the trusted key that signed a package.
func (r *Registry) verify(p *archive.Package) (string, error) {
	keyID, err := p.SignedBy()
	if err != nil {
		return "", err
	}
	key, err := r.trusted(p.Manifest.Publisher, keyID)
	if err != nil {
		return "", err
	}
	return keyID, p.Verify(key)
}

// replace holds a skill against the one whose place it takes, and says what kind of change it is. A removed one still says
// whose the id is.
func (r *Registry) replace(s *skill.Skill, widen bool) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.known[s.ID]
	if old == nil {
		if len(r.known) >= maxSkills {
			return "", palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "there are %d skills, which is the most", maxSkills).
				WithRemedy("remove one first: 'palyra skills remove ID --forget'")
		}
		return "installed", nil
	}
	keep := "nothing was installed; 'palyra skills remove " + s.ID + " --forget' lets go of the id first"
	if old.Publisher != s.Publisher || old.KeyID != s.KeyID && r.keys[old.KeyID].RevokedAt.IsZero() {
		return "", palyra.Errorf(palyra.Denied, skill.ReasonPublisher, "the skill %s is from %s (%s), and this one is from %s (%s)", s.ID,
			old.Publisher, old.KeyID, s.Publisher, s.KeyID).WithRemedy("%s", keep)
	}
	if old.State == removed {
		return "installed", nil
	}
	switch order := skill.CompareVersions(s.Version, old.Version); {
	case order < 0:
		return "", palyra.Errorf(palyra.Denied, skill.ReasonDowngrade, "version %s of %s is installed, and this is %s", old.Version,
			s.ID, s.Version).
			WithRemedy("nothing was installed; to go back, 'palyra skills remove %s' comes first", s.ID)
	case order == 0 && s.Digest != old.Digest:
		return "", palyra.Errorf(palyra.Conflict, skill.ReasonDowngrade,
			"version %s of %s is installed, and this is another one of the same version",
			s.Version, s.ID).WithRemedy("have its publisher give it a new version; nothing was installed")
	case order == 0:
		return "", palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "this very package is installed already").
			WithRemedy("see 'palyra skills show %s'", s.ID)
	}
	more := s.Capabilities.Missing(old.Capabilities)
	if len(more) > 0 && !widen {
		return "", palyra.Errorf(palyra.Denied, skill.ReasonWidened, "version %s of %s asks for more than %s does: %s", s.Version,
			s.ID, old.Version,
			palyra.Clip(strings.Join(more, ", "), 400)).
			WithRemedy("look at what it is for; then 'palyra skills install FILE --widen', and enable it with what you grant; nothing was installed")
	}
	s.Granted = old.Granted.Within(s.Capabilities)
	if s.State = old.State; s.State == skill.Revoked {
		s.State = skill.Quarantined
	}
	s.Why = old.Why
	if len(more) > 0 {
		s.State, s.Why = skill.Quarantined, "it asks for more than the version before"
	}
	return "updated", nil
}

// open loads the package of a skill, and verifies it and its publisher once more.
func (r *Registry) open(ctx context.Context, s skill.Skill) (*archive.Package, error) {
	p, err := r.read(ctx, s)
	if err != nil {
		return nil, err
	}
	if keyID, err := r.verify(p); err != nil {
		return nil, err
	} else if keyID != s.KeyID || p.Manifest.ID != s.ID || p.Manifest.Version != s.Version || p.Manifest.Publisher != s.Publisher {
		return nil, palyra.Errorf(palyra.Denied, skill.ReasonSignature, "the package of the skill %s is another one's", s.ID).
			WithRemedy("install it again")
	}
	return p, nil
}

// read loads the package of a skill, which is the one that was installed. Whether its key is still trusted is not looked at.
func (r *Registry) read(ctx context.Context, s skill.Skill) (*archive.Package, error) {
	var raw []byte
	err := r.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get(`SELECT data FROM skill_packages WHERE digest = ?`, []any{string(s.Digest)}, &raw)
	})
	if err != nil || palyra.SumBytes(raw) != s.Digest {
		return nil, palyra.Errorf(palyra.Unavailable, skill.ReasonArchive,
			"the package of the skill %s is not there, or not what was installed", s.ID).
			WithRemedy("install it again: 'palyra skills remove %s', then 'palyra skills install FILE'", s.ID).WithCause(err)
	}
	return archive.Open(raw)
}
