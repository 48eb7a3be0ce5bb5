package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// allowedGroup is the allowlist as policies see it.
var allowedGroup = cedar.NewEntityUID("ToolGroup", "allowed")

// principalTypes maps kinds of principals to entity types.
var principalTypes = map[string]cedar.EntityType{
	"user": "User", "agent": "Agent", "device": "Device", "system": "Service",
}

// principalUID names a principal in policy. What has no kind or no name cannot
// be judged.
func principalUID(p palyra.Principal) (cedar.EntityUID, error) {
	t, ok := principalTypes[p.Kind()]
	if !ok || p.Name() == "" {
		return cedar.EntityUID{}, palyra.Errorf(palyra.Invalid, palyra.ReasonPolicyError, "policy: %q is not a principal", palyra.Clip(string(p), 64))
	}
	return cedar.NewEntityUID(t, cedar.String(p.Name())), nil
}

func actionUID(name string) cedar.EntityUID { return cedar.NewEntityUID("Action", cedar.String(name)) }

func roleUID(name string) cedar.EntityUID { return cedar.NewEntityUID("Role", cedar.String(name)) }

// world is what policies can look up: the few entities of a request in front
// of the bundle's actions.
type world struct {
	own     []cedar.Entity
	actions cedar.EntityMap
}

// Get implements cedar's EntityGetter.
func (w world) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	for _, e := range w.own {
		if e.UID == uid {
			return e, true
		}
	}
	return w.actions.Get(uid)
}

// people is the principal, and its owner where the bundle knows more of that
// one than the name.
func (b *Bundle) people(uid cedar.EntityUID, owner palyra.Principal, roles []string) []cedar.Entity {
	all := []cedar.Entity{principalEntity(uid, owner, roles, b.members[uid])}
	if o, err := principalUID(owner); err == nil && o != uid && len(b.members[o]) > 0 {
		all = append(all, cedar.Entity{UID: o, Parents: cedar.NewEntityUIDSet(b.members[o]...)})
	}
	return all
}

// principalEntity is the principal with its roles. Agents always have the role
// agent; owner may be empty.
func principalEntity(uid cedar.EntityUID, owner palyra.Principal, roles []string, more []cedar.EntityUID) cedar.Entity {
	e := cedar.Entity{UID: uid}
	parents := slices.Clone(more)
	for _, r := range roles {
		parents = append(parents, roleUID(r))
	}
	if uid.Type == "Agent" {
		parents = append(parents, roleUID(string(palyra.RoleAgent)))
	}
	e.Parents = cedar.NewEntityUIDSet(parents...)
	if o, err := principalUID(owner); err == nil && o.Type == "User" && (uid.Type == "Agent" || uid.Type == "Device") {
		e.Attributes = cedar.NewRecord(cedar.RecordMap{"owner": o})
	}
	return e
}

func (s *state) toolEntity(r palyra.Request, caps []string, sensitive bool) cedar.Entity {
	e := cedar.Entity{
		UID: cedar.NewEntityUID("Tool", cedar.String(r.Tool.Name)),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"name": cedar.String(r.Tool.Name), "capabilities": stringSet(caps), "source": cedar.String(r.Tool.Source),
			"sensitive": cedar.Boolean(sensitive), "read_only": cedar.Boolean(r.Tool.ReadOnly),
		}),
	}
	if s.tools.has(r.Tool.Name) {
		e.Parents = cedar.NewEntityUIDSet(allowedGroup)
	}
	return e
}

// namedEntity is a resource of which policy knows the name only.
func namedEntity(uid cedar.EntityUID) cedar.Entity {
	e := cedar.Entity{UID: uid}
	switch uid.Type {
	case "ToolGroup", "User", "Agent", "Device", "Service":
	default:
		e.Attributes = cedar.NewRecord(cedar.RecordMap{"name": uid.ID})
	}
	return e
}

func stringSet(list []string) cedar.Set {
	values := make([]cedar.Value, len(list))
	for i, s := range list {
		values[i] = cedar.String(s)
	}
	return cedar.NewSet(values...)
}

// pair is one action on one resource that a plan implies.
type pair struct{ action, resource cedar.EntityUID }

func (p pair) words() palyra.Pair {
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
// that happens in the course of it. All must be permitted.
func pairsOf(r palyra.Request, caps []string, tool cedar.EntityUID) []pair {
	pairs := []pair{{actionUID("tool.execute"), tool}}
	if r.Tool.Source == palyra.SourceSkill {
		pairs = append(pairs, pair{actionUID("skill.execute"), tool})
	}
	for _, i := range implied {
		if slices.Contains(caps, string(i.capability)) {
			pairs = append(pairs, pair{actionUID(i.action), tool})
		}
	}
	for _, name := range distinct(r.Plan.Bindings) {
		pairs = append(pairs, pair{actionUID("vault.use"), cedar.NewEntityUID("Secret", cedar.String(name))})
	}
	return pairs
}

// distinct returns the sorted distinct strings of list.
func distinct(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
