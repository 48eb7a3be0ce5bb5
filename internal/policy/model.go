package policy

import (
	"path"
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

func roleUID(name string) cedar.EntityUID { return cedar.NewEntityUID("Role", cedar.String(name)) }

// world is what policies can look up: the few entities of a request in front of the bundle's actions.
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

// principalEntities are the principal and its owner, the latter where more is known than the name: roles by
// the registry, teams and more roles by the bundle.
func (b *Bundle) principalEntities(uid cedar.EntityUID, owner palyra.Principal, s palyra.Standing) []cedar.Entity {
	all := []cedar.Entity{principalEntity(uid, owner, s.Roles, b.members[uid])}
	if o, err := PrincipalUID(owner); err == nil && o != uid && len(b.members[o])+len(s.Owner) > 0 {
		all = append(all, cedar.Entity{UID: o, Parents: memberships(s.Owner, b.members[o])})
	}
	return all
}

// memberships are roles by name, and the other groups that somebody is in.
func memberships(roles []palyra.Role, more []cedar.EntityUID) cedar.EntityUIDSet {
	parents := slices.Clone(more)
	for _, r := range roles {
		parents = append(parents, roleUID(string(r)))
	}
	return cedar.NewEntityUIDSet(parents...)
}

// principalEntity is the principal with its roles. Agents have the role agent and
// no other, whatever anybody says; owner may be empty.
func principalEntity(uid cedar.EntityUID, owner palyra.Principal, roles []palyra.Role, more []cedar.EntityUID) cedar.Entity {
	e := cedar.Entity{UID: uid}
	if uid.Type == "Agent" {
		roles = []palyra.Role{palyra.RoleAgent}
	}
	e.Parents = memberships(roles, more)
	if o, err := PrincipalUID(owner); err == nil && o.Type == "User" && (uid.Type == "Agent" || uid.Type == "Device") {
		e.Attributes = cedar.NewRecord(cedar.RecordMap{"owner": o})
	}
	return e
}

func (s *state) toolEntity(r palyra.Request, caps []palyra.Capability, sensitive bool) cedar.Entity {
	e := cedar.Entity{
		UID: cedar.NewEntityUID("Tool", cedar.String(r.Tool.Name)),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"name": cedar.String(r.Tool.Name), "capabilities": stringSet(caps), "source": cedar.String(r.Tool.Source),
			"sensitive": cedar.Boolean(sensitive), "read_only": cedar.Boolean(r.Tool.ReadOnly),
		}),
	}
	var groups []cedar.EntityUID
	if s.tools.has(string(r.Tool.Name)) {
		groups = append(groups, allowedGroup)
	}
	switch r.Tool.Source { // named here, so that no tool can be in the allowlist by what it calls itself
	case palyra.SourceBuiltin, palyra.SourceSkill, palyra.SourceMCP:
		groups = append(groups, cedar.NewEntityUID("ToolGroup", cedar.String(r.Tool.Source)))
	}
	e.Parents = cedar.NewEntityUIDSet(groups...)
	return e
}

func sessionUID(id palyra.SessionID) cedar.EntityUID {
	return cedar.NewEntityUID("Session", cedar.String(id))
}

// sessionEntity is the session that a request is part of.
func sessionEntity(r palyra.Request) cedar.Entity {
	return cedar.Entity{UID: sessionUID(r.Session), Attributes: cedar.NewRecord(cedar.RecordMap{"labels": stringSet(r.Labels)})}
}

// placeEntity is a workspace, in every directory above it.
func placeEntity(at string) cedar.Entity {
	at = path.Clean(at)
	e := cedar.Entity{
		UID: cedar.NewEntityUID("Workspace", cedar.String(at)), Attributes: cedar.NewRecord(cedar.RecordMap{"name": cedar.String(at)}),
	}
	var above []cedar.EntityUID
	for dir := path.Dir(at); dir != at && len(above) < maxAbove; at, dir = dir, path.Dir(dir) {
		above = append(above, cedar.NewEntityUID("Workspace", cedar.String(dir)))
	}
	e.Parents = cedar.NewEntityUIDSet(above...)
	return e
}

// maxAbove bounds the directories above a workspace that policies can name.
const maxAbove = 64

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

func stringSet[T ~string](list []T) cedar.Set {
	values := slices.Grow([]cedar.Value(nil), len(list)) // none: no map is made
	for _, s := range list {
		values = append(values, cedar.String(s))
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
