package rpctest

import (
	"context"

	"palyra"
	"palyra/internal/skill"
)

// skillsPart keeps one skill.
type skillsPart struct{ p *Parts }

func oneSkill() skill.Skill {
	return skill.Skill{
		Manifest: skill.Manifest{
			Format: skill.Format, ID: "demo", Version: "0.1.0", Publisher: "acme", Description: "Greets.\x1b[31m",
			Tools: []skill.ToolSpec{{
				Name: "greet", Description: "Greets \u202esomebody.", Module: "demo.wasm", InputSchema: `{"type":"object"}`, ReadOnly: true,
			}},
			Folder: &skill.Folder{Scripts: []string{"scripts/run.py"}}, Capabilities: skill.Capabilities{Hosts: []string{"example.com:443"}},
			Limits: skill.Limits{Fuel: 1000},
		},
		State: skill.Quarantined, Why: "nobody has enabled it yet", Digest: palyra.SumBytes([]byte("package")), KeyID: "pub-1",
		Granted: skill.Capabilities{Storage: []string{"cache/"}}, InstalledBy: "user:ann", InstalledAt: At, Bytes: 100,
	}
}

func onePublisher() skill.Publisher {
	return skill.Publisher{Name: "acme", KeyID: "pub-1", PublicKey: "AAAA", AddedBy: "user:ann", AddedAt: At, RevokedAt: At}
}

// Install implements skills.Skills.
func (s skillsPart) Install(ctx context.Context, a skill.Addition) (skill.Skill, error) {
	s.p.note(ctx, "skill install")
	one := oneSkill()
	one.InstalledBy = a.By.Principal
	return one, nil
}

// Enable implements skills.Skills.
func (s skillsPart) Enable(ctx context.Context, e skill.Enabling) (skill.Skill, error) {
	s.p.note(ctx, "skill enable "+e.ID)
	one := oneSkill()
	one.State, one.Why, one.Granted = skill.Active, "", e.Granted
	return one, nil
}

// Quarantine implements skills.Skills.
func (s skillsPart) Quarantine(ctx context.Context, id string, _ skill.By) (skill.Skill, error) {
	s.p.note(ctx, "skill quarantine "+id)
	return oneSkill(), nil
}

// Remove implements skills.Skills.
func (s skillsPart) Remove(ctx context.Context, id string, _ bool, _ skill.By) error {
	s.p.note(ctx, "skill remove "+id)
	return nil
}

// Shrink implements skills.Skills.
func (s skillsPart) Shrink(ctx context.Context, id string, apply bool, _ skill.By) (skill.Shrinking, error) {
	s.p.note(ctx, "skill shrink "+id)
	one := oneSkill()
	return skill.Shrinking{ID: id, Runs: 3, Granted: one.Capabilities, Needed: one.Granted, Applied: apply}, nil
}

// Trust implements skills.Publishers.
func (s skillsPart) Trust(ctx context.Context, name, _ string, _ skill.By) (skill.Publisher, error) {
	s.p.note(ctx, "publisher trust "+name)
	return onePublisher(), nil
}

// Revoke implements skills.Publishers.
func (s skillsPart) Revoke(ctx context.Context, keyID string, _ skill.By) (skill.Publisher, error) {
	s.p.note(ctx, "publisher revoke "+keyID)
	return onePublisher(), nil
}

// Publishers implements skills.Publishers.
func (s skillsPart) Publishers(ctx context.Context) ([]skill.Publisher, error) {
	s.p.note(ctx, "publisher list")
	return []skill.Publisher{onePublisher()}, nil
}

// List implements skills.Shelf.
func (s skillsPart) List(ctx context.Context) ([]skill.Skill, error) {
	s.p.note(ctx, "skill list")
	return []skill.Skill{oneSkill()}, nil
}

// Find implements skills.Shelf.
func (s skillsPart) Find(string) (skill.Skill, error) { return oneSkill(), nil }
