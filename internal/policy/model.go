package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy/entity"
)

// principalTypes maps kinds of principals to entity types.
var principalTypes = map[string]cedar.EntityType{
	"user": "User", "agent": "Agent", "device": "Device", "system": "Service",
}

// PrincipalUID names a principal in policy. A name without a kind or without a name proper cannot be judged.
func PrincipalUID(p palyra.Principal) (cedar.EntityUID, error) {
	t, ok := principalTypes[p.Kind()]
	if !ok || p.Name() == "" {
		return cedar.EntityUID{}, palyra.Errorf(palyra.Invalid, palyra.ReasonPolicyError, "policy: %q is not a principal",
			palyra.Clip(string(p), 64))
	}
	return cedar.NewEntityUID(t, cedar.String(p.Name())), nil
}

// CheckPrincipal refuses a name that policy cannot judge.
func CheckPrincipal(p palyra.Principal) error {
	if _, err := PrincipalUID(p); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is not a principal", palyra.Clip(string(p), 64)).
			WithRemedy("write it as agent:NAME, user:NAME, device:ID or system:NAME").WithCause(err)
	}
	return nil
}

func actionUID(name string) cedar.EntityUID { return cedar.NewEntityUID("Action", cedar.String(name)) }

// world is what policies can look up: the few entities of a request in front of the bundle's actions.
type world struct {
	own     []cedar.Entity
	actions cedar.EntityMap
}

// Get implements cedar's EntityGetter.
func (w *world) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	for i := range w.own {
		if w.own[i].UID == uid {
			return w.own[i], true
		}
	}
	return w.actions.Get(uid)
}

// caller is the principal with its owner: with roles by the registry, and teams and more roles by the bundle.
func (s *state) caller(uid cedar.EntityUID, owner palyra.Principal, known palyra.Standing) *entity.Caller {
	of := entity.Membership{}
	if o, err := PrincipalUID(owner); err == nil {
		of = entity.Membership{UID: o, Roles: known.Owner, More: s.bundle.members[o]}
	}
	return s.memory.Caller(entity.Membership{UID: uid, Roles: known.Roles, More: s.bundle.members[uid]}, of)
}

// tool is the tool of a request, with what the call of it may touch.
func (s *state) tool(t palyra.Tool, caps []palyra.Capability) *entity.Callee {
	return s.memory.Tool(entity.ToolWords{
		Name: t.Name, Source: t.Source, Capabilities: caps, Sensitive: t.Sensitive(), ReadOnly: t.ReadOnly,
		Allowed: s.tools.has(string(t.Name)),
	})
}

func sessionUID(id palyra.SessionID) cedar.EntityUID {
	return cedar.NewEntityUID("Session", cedar.String(id))
}

// pair is one action on one resource that a plan implies.
type pair struct{ action, resource cedar.EntityUID }

// namesOf is a pair as records write it.
func (c *judgement) namesOf(p pair) palyra.Pair {
	if c.tool != nil && p.resource == c.tool.Entity.UID {
		return palyra.Pair{Action: string(p.action.ID), Resource: c.tool.Name}
	}
	return palyra.Pair{Action: string(p.action.ID), Resource: p.resource.String()}
}

// implied are the actions that a capability brings with it. The tool stands
// for the channel, page or node, which plans do not name.
var implied = []struct {
	capability palyra.Capability
	action     string
}{
	{palyra.ChannelSend, "channel.send"},
	{palyra.Browser, "browser.act"},
	{palyra.NodeInvoke, "node.invoke"},
	{palyra.DevicePair, "device.join"},
}

// pairsOf returns everything a plan does: running the tool, and each thing
// that happens in the course of it. All must be permitted. Of a run that is over it is keeping what it did.
func pairsOf(r palyra.Request, caps []palyra.Capability, tool cedar.EntityUID) []pair {
	if r.Effects != nil { // the call was judged before it ran
		return []pair{{keepAction, tool}}
	}
	pairs := []pair{{actionUID("tool.execute"), tool}}
	if r.Tool.Source == palyra.SourceSkill {
		pairs = append(pairs, pair{actionUID("skill.execute"), tool})
	}
	for _, i := range implied {
		if slices.Contains(caps, i.capability) {
			pairs = append(pairs, pair{actionUID(i.action), tool})
		}
	}
	for _, name := range distinct(r.Plan.Bindings) {
		pairs = append(pairs, pair{actionUID(string(palyra.PermitVaultUse)), cedar.NewEntityUID("Secret", cedar.String(name))})
	}
	return pairs
}

// distinct returns the sorted distinct strings of list.
func distinct(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
