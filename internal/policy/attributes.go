package policy

import (
	"math/bits"
	"slices"
	"sync"

	"palyra/internal/policy/entity"
	"palyra/internal/policy/risk"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"palyra"
)

// attribute is one member of the context. It is absent where of returns nil.
type attribute struct {
	name cedar.String
	of   func(*judgement) cedar.Value
}

// attributes are all members of a call's context except the approval. Each is made when it is first asked
// for, since most policies look at few of them.
var attributes = [...]attribute{
	{"tool", func(c *judgement) cedar.Value { return cedar.String(c.request.Plan.Tool) }},
	{"capabilities", func(c *judgement) cedar.Value { return c.tool.Capabilities }},
	{"sensitive", func(c *judgement) cedar.Value { return cedar.Boolean(c.found.Sensitive) }},
	{"read_only", func(c *judgement) cedar.Value { return cedar.Boolean(c.found.ReadOnly) }},
	{"destructive", func(c *judgement) cedar.Value { return cedar.Boolean(c.found.Destructive) }},
	{"argv", func(c *judgement) cedar.Value { return entity.Set(c.request.Plan.Argv) }},
	{"command_line", func(c *judgement) cedar.Value { return cedar.String(risk.CommandLine(c.request.Plan.Argv)) }},
	{"cwd", func(c *judgement) cedar.Value { return cedar.String(c.request.Plan.Cwd) }},
	{"env", func(c *judgement) cedar.Value {
		return entity.Names(c.request.Plan.Env, func(v palyra.EnvVar) string { return v.Name })
	}},
	{"stdin_live", func(c *judgement) cedar.Value { return cedar.Boolean(c.request.Plan.Stdin == palyra.StdinLive) }},
	{"reads", func(c *judgement) cedar.Value { return entity.Set(c.request.Plan.Reads) }},
	{"writes", func(c *judgement) cedar.Value { return entity.Set(c.request.Plan.Writes) }},
	{"secrets", func(c *judgement) cedar.Value { return entity.Set(c.request.Plan.Bindings) }},
	{"tier", func(c *judgement) cedar.Value { return cedar.String(c.request.Plan.Tier) }},
	{"input_bytes", func(c *judgement) cedar.Value { return cedar.Long(len(c.request.Plan.Arguments)) }},
	{"calls_used", func(c *judgement) cedar.Value { return cedar.Long(c.request.CallsUsed) }},
	{"budget", func(c *judgement) cedar.Value { return cedar.Long(c.budget(c.request)) }},
	{"labels", func(c *judgement) cedar.Value { return c.labels.Set }},
	{"risk", func(c *judgement) cedar.Value { return riskRecord(c.found) }},
	{"session_id", func(c *judgement) cedar.Value { return cedar.String(c.request.Session) }},
	{"session", func(c *judgement) cedar.Value { return sessionUID(c.request.Session) }},
	{"surface", func(c *judgement) cedar.Value { return cedar.String(c.request.Surface) }},
	{"surface_allowed", func(c *judgement) cedar.Value { return cedar.Boolean(c.surfaces.has(string(c.request.Surface))) }},
	{"door", func(c *judgement) cedar.Value { return cedar.String(c.request.Surface) }},
	{"door_allowed", func(c *judgement) cedar.Value { return cedar.Boolean(c.surfaces.has(string(c.request.Surface))) }},
	{"principal_allowed", func(c *judgement) cedar.Value { return cedar.Boolean(c.principals.has(string(c.request.Principal))) }},
	{"profile", func(c *judgement) cedar.Value { return cedar.String(c.request.Plan.Profile) }},
	{"asks", func(c *judgement) cedar.Value { return cedar.Boolean(c.request.Plan.Asks) }},
	{"network", func(c *judgement) cedar.Value { return cedar.String(c.request.Plan.Enforcement.Mode) }},
	{"agent_socket", func(c *judgement) cedar.Value { return cedar.Boolean(c.request.Plan.AgentSocket) }},
	{"probed", func(c *judgement) cedar.Value { return cedar.Boolean(c.probed != nil && c.probed(c.request.Plan.Tier)) }},
	{"unix_sockets", func(c *judgement) cedar.Value { return cedar.Boolean(c.request.Plan.UnixSockets) }},
	{"mechanisms", func(c *judgement) cedar.Value { return entity.Set(c.request.Plan.Enforcement.Mechanisms) }},
	{"limits", func(c *judgement) cedar.Value { return entity.Limits(c.request.Plan.Enforcement.Limits) }},
	{"workspace_needed", func(c *judgement) cedar.Value { return cedar.Boolean(c.found.Workspace) }},
	{"workspace_known", func(c *judgement) cedar.Value { return cedar.Boolean(c.request.Plan.Workspace.Known) }},
	{"egress", func(c *judgement) cedar.Value { return hostPairs(c.egress) }},
	{"hosts", func(c *judgement) cedar.Value { return entity.Names(c.egress, func(h Host) string { return h.Name }) }},
	{"command", func(c *judgement) cedar.Value { return c.memory.Command(&c.words) }},
	{"time", func(c *judgement) cedar.Value { return entity.Moment(c.request.At) }},
	{"run_id", func(c *judgement) cedar.Value { return entity.Word(string(c.request.Run)) }},
	{"parent", func(c *judgement) cedar.Value { return entity.Word(string(c.request.Parent)) }},
	{"workspace", func(c *judgement) cedar.Value { return entity.Word(c.request.Plan.Workspace.Path) }},
	{"executable", func(c *judgement) cedar.Value { return c.memory.Executable(c.request.Plan.Executable) }},
	{"subcommand", func(c *judgement) cedar.Value { return entity.Word(c.words.Subcommand) }},
	{"device_id", func(c *judgement) cedar.Value { return entity.Word(c.standing.Device) }},
	{"place", func(c *judgement) cedar.Value { return entity.PlaceOf(c.request.Plan.Workspace.Path) }},
	{"staged", func(c *judgement) cedar.Value { return cedar.Boolean(c.request.Plan.Staging.Staged()) }},
	{liveAskedName, func(c *judgement) cedar.Value { return cedar.Boolean(c.request.Plan.Staging.LiveAsked()) }},
	{"removes", func(c *judgement) cedar.Value { return cedar.Long(len(c.request.Plan.Removes)) }},
	{"egress_group", func(c *judgement) cedar.Value { return entity.Word(c.groups.Name(c.request.Plan.Egress)) }},
	{effectsName, func(c *judgement) cedar.Value { return entity.Effects(c.request.Effects) }},
}

// attrs is a set of attributes: those of the table by their place, and the approval.
type attrs uint64

const (
	approvalName       = "approval"
	allAttrs     attrs = 1<<len(attributes) - 1
	attrApproval attrs = 1 << len(attributes) // there is room for 63, or this does not compile
	everything         = allAttrs | attrApproval
)

// view is the part of the context that some policies can see under one approval.
type view struct {
	attrs attrs
	under answer
}

// ladderRecords are the approvals that the ladder tries, as policies see them.
var ladderRecords = sync.OnceValue(func() map[answer]cedar.Value {
	all := map[answer]cedar.Value{{}: nobodysAnswer}
	for _, a := range ladder {
		all[a], all[a.leased()] = a.record(), a.leased().record()
	}
	return all
})

// nobodysAnswer is the record of no approval.
var nobodysAnswer cedar.Value = answer{}.record()

// approvalRecord is an approval as policies see it.
func approvalRecord(a answer) cedar.Value {
	if a == (answer{}) {
		return nobodysAnswer
	}
	if rec, ok := ladderRecords()[a]; ok {
		return rec
	}
	return a.record()
}

// read returns the attributes that some policies read together.
func (r rules) read() (all attrs) {
	for _, one := range r {
		all |= everything &^ one.unread
	}
	return all
}

// readsContext returns the attributes that a policy's conditions can see. A use of
// the context as a whole sees all of them, and so does a name that nobody knows.
func readsContext(p *ast.Policy) (found attrs) {
	look := func(n ast.IsNode) bool {
		if isContext(n) {
			found = everything
		}
		of, attr := member(n)
		if isContext(of) {
			found |= attrNamed(attr)
			return false
		}
		return found != everything
	}
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), look)
	}
	return found
}

func attrNamed(name types.String) attrs {
	if i, _, known := attributeNumber(name); known {
		return 1 << i
	}
	return everything
}

// attributeNumber is the place of an attribute in the table; the approval comes after it, and may not be known yet.
func attributeNumber(name types.String) (i int, maybe, known bool) {
	i = slices.IndexFunc(attributes[:], func(a attribute) bool { return a.name == name })
	if name == approvalName {
		return len(attributes), true, true
	}
	return i, false, i >= 0
}

// Attribute implements premise.Facts.
func (c *judgement) Attribute(i int) cedar.Value {
	switch {
	case i == len(attributes):
		return c.approval
	case c.hidden()&(1<<i) != 0:
		return nil
	}
	return c.value(i)
}

// Resource implements premise.Facts.
func (c *judgement) Resource(name cedar.String) cedar.Value {
	e, _ := c.world.Get(c.resource)
	v, _ := e.Attributes.Get(name)
	return v
}

// contextFor returns the part of the context that these policies can tell apart, under an approval. It leaves
// out the attributes that none of them reads, which makes it much smaller and changes no answer.
func (c *judgement) contextFor(some rules, a answer) cedar.Record {
	v := view{some.read(), a}
	if v.attrs&attrApproval == 0 {
		v.under = answer{}
	}
	return c.seen(v)
}

// context returns the whole context with the approval given.
func (c *judgement) context(a answer) cedar.Record { return c.seen(view{everything, a}) }

// seen returns a part of the context, made once.
func (c *judgement) seen(v view) cedar.Record {
	if c.view == v && v != (view{}) {
		return c.viewed
	}
	rec, ok := c.views[v]
	if ok {
		return rec
	}
	plain, ok := c.truths(v)
	if ok {
		if rec, ok := c.contexts.Get(plain); ok {
			return rec
		}
	}
	m := c.attributeMap(v.attrs)
	if v.attrs&attrApproval != 0 {
		m[approvalName] = approvalRecord(v.under)
	}
	rec = cedar.NewRecord(m)
	switch {
	case ok:
		c.contexts.Put(plain, rec)
	case c.view == (view{}): // most judgements need no more
		c.view, c.viewed = v, rec
	case c.views == nil:
		c.views = map[view]cedar.Record{v: rec}
	default:
		c.views[v] = rec
	}
	return rec
}

// truths are a view of which all attributes are true, false or absent: there are few of those, and many calls have the
// same one.
type truths struct {
	view
	yes, no attrs
}

// truths returns a view as truths; false: it has other attributes as well, or nothing is remembered.
func (c *judgement) truths(v view) (t truths, ok bool) {
	if c.contexts == nil {
		return t, false
	}
	t.view = v
	for rest := v.attrs & allAttrs &^ c.hidden(); rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(uint64(rest))
		switch is := c.value(i).(type) {
		case nil:
		case cedar.Boolean:
			if is {
				t.yes |= 1 << i
			} else {
				t.no |= 1 << i
			}
		default:
			return t, false
		}
	}
	return t, true
}

// attributeMap makes the attributes of a set.
func (c *judgement) attributeMap(want attrs) cedar.RecordMap {
	m := make(cedar.RecordMap, bits.OnesCount64(uint64(want))+1)
	for i := range attributes {
		if want&^c.hidden()&(1<<i) == 0 {
			continue
		}
		if v := c.value(i); v != nil {
			m[attributes[i].name] = v
		}
	}
	return m
}

// value is an attribute, made once where several views have it.
func (c *judgement) value(i int) cedar.Value {
	if c.made&(1<<i) == 0 {
		c.values[i] = attributes[i].of(c)
		c.made |= 1 << i
	}
	return c.values[i]
}

func hostPairs(list []Host) cedar.Set {
	both := make([]cedar.Value, len(list))
	for i, h := range list {
		both[i] = cedar.NewRecord(cedar.RecordMap{"host": cedar.String(h.Name), "port": cedar.Long(h.Port)})
	}
	return cedar.NewSet(both...)
}
