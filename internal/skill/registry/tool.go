package registry

import (
	"strings"

	"palyra"
	"palyra/internal/skill"
)

// maxArguments bounds the arguments of one call.
const maxArguments = 1 << 20

// group is the name under which the tools of a skill are offered.
func group(id string) string { return "skill:" + id }

// offer offers the tools of a skill, or takes them away.
func (r *Registry) offer(s skill.Skill) error {
	if s.State != skill.Active {
		return r.Catalog.Offer(group(s.ID), nil)
	}
	return r.Catalog.Offer(group(s.ID), tools(s))
}

// tools are the tools of a skill as the catalog has them.
func tools(s skill.Skill) (out []palyra.Tool) {
	if s.Folder != nil {
		out = append(out, readTool(s))
		if len(s.Folder.Scripts) > 0 {
			out = append(out, runTool(s))
		}
	}
	for _, t := range s.Tools {
		out = append(out, palyra.Tool{
			Name: skill.ToolName(s.ID, t.Name), Title: t.Title, Description: t.Description, Source: palyra.SourceSkill, Tier: palyra.TierA,
			InputSchema: t.Schema(), MaxInput: maxArguments, Capabilities: capabilities(s.Granted), ReadOnly: t.ReadOnly && s.Granted.Empty(),
		})
	}
	return out
}

// capabilities are what granted things let a tool touch. One that was granted nothing computes, and touches nothing.
func capabilities(c skill.Capabilities) []palyra.Capability {
	out := []palyra.Capability{}
	add := func(of []string, what palyra.Capability) {
		if len(of) > 0 {
			out = append(out, what)
		}
	}
	add(c.Channels, palyra.ChannelSend)
	add(c.Write, palyra.FilesystemWrite)
	add(c.Read, palyra.FilesystemRead)
	add(c.Hosts, palyra.Network)
	add(c.Programs, palyra.ProcessExec)
	add(c.Secrets, palyra.SecretsRead)
	return out
}

// lookup finds an active tool by its name in the catalog.
func (r *Registry) lookup(name palyra.ToolName) (skill.Skill, palyra.Tool, error) {
	unknown := palyra.Errorf(palyra.NotFound, palyra.ReasonUnknownTool, "there is no tool %q of a skill", palyra.Clip(string(name), 128)).
		WithRemedy("see 'palyra skills list'")
	rest, ok := strings.CutPrefix(string(name), "skill.")
	id, _, named := strings.Cut(rest, ".")
	if !ok || !named {
		return skill.Skill{}, palyra.Tool{}, unknown
	}
	s, err := r.Find(id)
	if err != nil {
		return s, palyra.Tool{}, unknown
	}
	if s.State != skill.Active {
		return s, palyra.Tool{}, palyra.Errorf(palyra.NotFound, skill.ReasonState, "the skill %s is not active: %s", s.ID, s.Why).
			WithRemedy("have an operator look at it: 'palyra skills show %s'", s.ID)
	}
	for _, t := range tools(s) {
		if t.Name == name {
			return s, t, nil
		}
	}
	return s, palyra.Tool{}, unknown
}

// Tool describes a tool that is offered. It implements the planner's driver.
func (r *Registry) Tool(name palyra.ToolName) (palyra.Tool, bool) {
	_, t, err := r.lookup(name)
	return t, err == nil
}
