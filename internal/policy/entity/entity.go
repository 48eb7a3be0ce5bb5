// Package entity makes the entities that policies can look up, and remembers them: the same callers, tools and
// workspaces come by again and again, and Cedar's sets and records take longer to make than most policies to evaluate.
//
// What is remembered was made of exactly what it is asked for with: every word of it is compared each time, so a
// memory can be shared by judgements with other policies, roles or allowlists. Entities are never changed.
//
// The package does not judge, and does not know policies.
package entity

import (
	"path"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// allowedGroup is the allowlist as policies see it.
var allowedGroup = cedar.NewEntityUID("ToolGroup", "allowed")

// Caller is who asks, and its owner where more is known of that than the name.
type Caller struct {
	Entities []cedar.Entity
	of       Membership
	owner    Membership
}

// Membership is somebody with the roles that the access registry knows and the groups that a bundle puts them into.
type Membership struct {
	UID   cedar.EntityUID // zero: nobody that policy knows
	Roles []palyra.Role
	More  []cedar.EntityUID
}

func (m Membership) same(o Membership) bool {
	return m.UID == o.UID && slices.Equal(m.Roles, o.Roles) && slices.Equal(m.More, o.More)
}

func (m Membership) clone() Membership {
	return Membership{m.UID, slices.Clone(m.Roles), slices.Clone(m.More)}
}

// parents are roles by name, and the other groups.
func (m Membership) parents() cedar.EntityUIDSet {
	all := slices.Clone(m.More)
	for _, r := range m.Roles {
		all = append(all, cedar.NewEntityUID("Role", cedar.String(r)))
	}
	return cedar.NewEntityUIDSet(all...)
}

// Caller is a principal and its owner, who may be nobody. Agents have the role agent and no other, whatever anybody says.
func (m *Memory) Caller(who, owner Membership) *Caller {
	if m == nil {
		return newCaller(who, owner)
	}
	return m.callers.get([2]cedar.EntityUID{who.UID, owner.UID},
		func(c *Caller) bool { return c.of.same(who) && c.owner.same(owner) },
		func() *Caller { return newCaller(who.clone(), owner.clone()) })
}

func newCaller(who, owner Membership) *Caller {
	c := &Caller{of: who, owner: owner}
	e := cedar.Entity{UID: who.UID}
	if who.UID.Type == "Agent" {
		who.Roles = []palyra.Role{palyra.RoleAgent}
	}
	e.Parents = who.parents()
	if owner.UID.Type == "User" && (who.UID.Type == "Agent" || who.UID.Type == "Device") {
		e.Attributes = cedar.NewRecord(cedar.RecordMap{"owner": owner.UID})
	}
	c.Entities = append(c.Entities, e)
	if owner.UID != (cedar.EntityUID{}) && owner.UID != who.UID && len(owner.More)+len(owner.Roles) > 0 {
		c.Entities = append(c.Entities, cedar.Entity{UID: owner.UID, Parents: owner.parents()})
	}
	return c
}

// Callee is a tool, with what a call of it may touch.
type Callee struct {
	Entity       cedar.Entity
	Name         string    // of the entity, as records write it
	Capabilities cedar.Set // of tool and plan
	of           ToolWords
}

// ToolWords are what a Callee is made of.
type ToolWords struct {
	Name                         palyra.ToolName
	Source                       palyra.Source
	Capabilities                 []palyra.Capability // of tool and plan
	Sensitive, ReadOnly, Allowed bool
}

func (w *ToolWords) same(o *ToolWords) bool {
	return w.Name == o.Name && w.Source == o.Source && w.Sensitive == o.Sensitive && w.ReadOnly == o.ReadOnly && w.Allowed == o.Allowed &&
		slices.Equal(w.Capabilities, o.Capabilities)
}

// Tool is a tool as policies see it.
func (m *Memory) Tool(w ToolWords) *Callee {
	if m == nil {
		return newTool(w)
	}
	return m.tools.get(w.Name, func(t *Callee) bool { return t.of.same(&w) }, func() *Callee {
		w.Capabilities = slices.Clone(w.Capabilities)
		return newTool(w)
	})
}

func newTool(w ToolWords) *Callee {
	caps := Set(w.Capabilities)
	e := cedar.Entity{
		UID: cedar.NewEntityUID("Tool", cedar.String(w.Name)),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"name": cedar.String(w.Name), "capabilities": caps, "source": cedar.String(w.Source),
			"sensitive": cedar.Boolean(w.Sensitive), "read_only": cedar.Boolean(w.ReadOnly),
		}),
	}
	var groups []cedar.EntityUID
	if w.Allowed {
		groups = append(groups, allowedGroup)
	}
	switch w.Source { // named here, so that no tool can be in the allowlist by what it calls itself
	case palyra.SourceBuiltin, palyra.SourceSkill, palyra.SourceMCP:
		groups = append(groups, cedar.NewEntityUID("ToolGroup", cedar.String(w.Source)))
	}
	e.Parents = cedar.NewEntityUIDSet(groups...)
	return &Callee{Entity: e, Name: e.UID.String(), Capabilities: caps, of: w}
}

// Labels are what a session has done, as policies see it.
type Labels struct {
	Set    cedar.Set
	Record cedar.Record // of a session that has them
	of     []string
}

// Labels are labels of a session.
func (m *Memory) Labels(list []string) Labels {
	if m == nil {
		return newLabels(list)
	}
	return m.labels.get(strings.Join(list, " "), func(l Labels) bool { return slices.Equal(l.of, list) },
		func() Labels { return newLabels(list) })
}

func newLabels(list []string) Labels {
	set := Set(list)
	return Labels{set, cedar.NewRecord(cedar.RecordMap{"labels": set}), slices.Clone(list)}
}

// maxAbove bounds the directories above a workspace that policies can name.
const maxAbove = 64

// Place is a workspace, in every directory above it.
func (m *Memory) Place(at string) cedar.Entity {
	if m == nil {
		return newPlace(at)
	}
	return m.places.get(at, func(cedar.Entity) bool { return true }, func() cedar.Entity { return newPlace(at) })
}

func newPlace(at string) cedar.Entity {
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

// Set is a set of strings.
func Set[T ~string](list []T) cedar.Set {
	values := slices.Grow([]cedar.Value(nil), len(list)) // none: no map is made
	for _, s := range list {
		values = append(values, cedar.String(s))
	}
	return cedar.NewSet(values...)
}
