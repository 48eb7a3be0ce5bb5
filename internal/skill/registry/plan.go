package registry

import (
	"context"
	"strings"
	"time"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/skill"
)

// What plans say of skills among their mechanisms, so that policies see it: skill:ID, skill_version:V, skill_publisher:NAME,
// and for each thing that is granted skill_may:KIND:VALUE.
const (
	saysSkill     = "skill:"
	saysVersion   = "skill_version:"
	saysPublisher = "skill_publisher:"
	saysMay       = skill.SaysMay
)

// Mechanisms are what a plan says of a skill.
func mechanisms(s skill.Skill) []string {
	out := []string{"wasm", saysSkill + s.ID, saysVersion + s.Version, saysPublisher + s.Publisher}
	for _, t := range s.Granted.Terms() {
		out = append(out, saysMay+t)
	}
	return out
}

// Names of a plan's bound inputs, after the skill's id.
const (
	inputPackage = "/package"
	inputGranted = "/granted"
	inputModule  = "/modules/"
)

// Plan binds everything that decides what a call does: the package, the module, and what was granted.
func (r *Registry) Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan) error {
	s, t, err := r.lookup(p.Tool)
	if err != nil {
		return err
	}
	if readsFolder(s, t.Name) {
		planRead(s, p)
		return nil
	}
	if runsScript(s, t.Name) {
		return r.planScript(ctx, s, c, p)
	}
	spec := specOf(s, t.Name)
	module, err := r.moduleOf(ctx, s, spec.Module)
	if err != nil {
		return err
	}
	id := saysSkill + s.ID
	p.Inputs = append(p.Inputs,
		palyra.Input{Path: id + inputPackage, Digest: s.Digest},
		palyra.Input{Path: id + inputModule + spec.Module, Digest: module}, grantedInput(s))
	p.Egress = append([]string(nil), s.Granted.Hosts...)
	p.Enforcement = palyra.Enforcement{Mode: palyra.NetworkStrict, Mechanisms: mechanisms(s), Limits: map[string]palyra.Hold{
		"wall": palyra.HoldContext, "memory": palyra.HoldCap, "fuel": palyra.HoldCounted, "output": palyra.HoldCap,
	}}
	if s.Limits.TimeoutMS > 0 {
		p.Limits.WallMS = min(p.Limits.WallMS, s.Limits.TimeoutMS+aroundMS)
	}
	p.Limits.MemoryBytes = memoryOf(s)
	p.Detail.Summary = show.Middle(s.ID+": "+spec.Name+" "+string(p.Arguments), 240)
	p.Detail.Notes = append(p.Detail.Notes, "the skill "+s.ID+" "+s.Version+" of "+s.Publisher+", signed by "+s.KeyID)
	if lines := s.Granted.Lines(); len(lines) > 0 {
		p.Detail.Notes = append(p.Detail.Notes, "it was granted "+show.Middle(strings.Join(lines, "; "), 400))
	} else {
		p.Detail.Notes = append(p.Detail.Notes, "it was granted nothing: it computes, and reaches nothing")
	}
	return nil
}

// specOf is the manifest's word on a tool.
func specOf(s skill.Skill, name palyra.ToolName) skill.ToolSpec {
	for _, t := range s.Tools {
		if skill.ToolName(s.ID, t.Name) == name {
			return t
		}
	}
	return skill.ToolSpec{}
}

// aroundMS is the time of a call around its module, for a worker to be started and to say that the module's time is over.
const aroundMS = 3000

// deadlineOf is how long a module may run in a call: what the manifest says, and less than the call has.
func deadlineOf(s skill.Skill, p palyra.Plan) time.Duration {
	ms := p.Limits.WallMS - min(aroundMS, p.Limits.WallMS/4)
	if s.Limits.TimeoutMS > 0 {
		ms = min(ms, s.Limits.TimeoutMS)
	}
	return time.Duration(ms) * time.Millisecond
}

const defaultMemoryMiB = 64

// memoryOf is how much memory an instance of a skill's modules may have.
func memoryOf(s skill.Skill) int64 {
	if s.Limits.MemoryMiB > 0 {
		return s.Limits.MemoryMiB << 20
	}
	return defaultMemoryMiB << 20
}

// moduleOf is the digest of a module, from the package as it was verified last.
func (r *Registry) moduleOf(ctx context.Context, s skill.Skill, name string) (palyra.Digest, error) {
	r.mu.Lock()
	sum, known := r.sums[s.Digest][name]
	r.mu.Unlock()
	if known {
		return sum, nil
	}
	p, err := r.open(ctx, s)
	if err != nil {
		return "", err
	}
	sums := map[string]palyra.Digest{}
	for _, t := range s.Tools {
		sums[t.Module] = palyra.SumBytes(p.Files[t.Module])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums[s.Digest] = sums
	return sums[name], nil
}
