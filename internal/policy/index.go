package policy

import (
	"cmp"
	"iter"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"palyra"
	"palyra/internal/policy/entity"
	"palyra/internal/policy/premise"
)

// rule is a policy with its name and place. reads says which parts of the approval its answer may depend on; a rule
// that reads none is evaluated once per request. unread are the attributes of the context that it does not look at:
// a rule that nobody has looked at sees everything. first is what its conditions begin with.
type rule struct {
	id     cedar.PolicyID
	policy *cedar.Policy
	reads  parts
	unread attrs
	first  premise.Premise
	hit    palyra.PolicyHit
}

// newRule is a policy under an id, with what it says of itself.
func newRule(id string, p *cedar.Policy) *rule {
	pos, notes, tree := p.Position(), p.Annotations(), (*ast.Policy)(p.AST())
	return &rule{
		id: cedar.PolicyID(id), policy: p, reads: readsApproval(tree), unread: everything &^ readsContext(tree),
		first: premise.Of(tree, attributeNumber),
		hit: palyra.PolicyHit{
			ID: id, Effect: effectWord(p), Reason: string(notes["reason"]), Remedy: string(notes["remedy"]),
			File: pos.Filename, Line: pos.Line, Column: pos.Column,
		},
	}
}

// rules is a list that Cedar can walk.
type rules []*rule

// All implements cedar.PolicyIterator.
func (r rules) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, one := range r {
			if !yield(one.id, one.policy) {
				return
			}
		}
	}
}

// stoppable is the list, which ends early when stop says so.
func (r *rules) stoppable(stop func() bool) cedar.PolicyIterator {
	if stop == nil {
		return r
	}
	return halting{*r, stop}
}

type halting struct {
	rules
	stop func() bool
}

// All implements cedar.PolicyIterator.
func (h halting) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for id, p := range h.rules.All() {
			if h.stop() || !yield(id, p) {
				return
			}
		}
	}
}

// index finds the policies that can match a request, so that the cost of a verdict depends on them and not on the
// size of the bundle. Each policy is filed under one entity its scope names (under each one of a list): the
// resource, the principal or the action, whichever the fewest policies name. A group that thousands of policies
// speak about is a poor place to look when each of them also names a team. Policies whose scope names none are
// always looked at.
//
// A policy that is left out cannot have matched: Cedar evaluates the scope first, the scope demands that the filed
// entity is the request's entity or an ancestor of it, and a scope never fails to evaluate.
type index struct {
	all    rules
	under  map[cedar.EntityUID][]int
	always []int
	known  *entity.Kept[asked, candidates] // what it found before
}

// asked is a tool's call by somebody, or another thing that happens in the course of it. Which policies can match
// depends on these entities and what they are in, and on nothing else.
type asked struct {
	caller *entity.Caller
	tool   *entity.Callee
	action cedar.String
}

// candidates are the policies that can match, as find returns them.
type candidates struct{ fixed, asking rules }

func newIndex(all rules) index {
	x := index{all: all, under: map[cedar.EntityUID][]int{}, known: &entity.Kept[asked, candidates]{}}
	crowd := map[cedar.EntityUID]int{}
	scopes := make([][][]cedar.EntityUID, len(all))
	for i, r := range all {
		scopes[i] = scopeKeys((*ast.Policy)(r.policy.AST()))
		for _, key := range slices.Concat(scopes[i]...) {
			crowd[key]++
		}
	}
	for i, keys := range scopes {
		if len(keys) == 0 {
			x.always = append(x.always, i)
			continue
		}
		for _, k := range leastCrowded(keys, crowd) {
			x.under[k] = append(x.under[k], i)
		}
	}
	return x
}

// scopeKeys returns the entities that a policy could be filed under, for each
// part of its scope that names any: resource, principal, action.
func scopeKeys(p *ast.Policy) [][]cedar.EntityUID {
	var keys [][]cedar.EntityUID
	for _, scope := range []ast.IsScopeNode{p.Resource, p.Principal, p.Action} {
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			keys = append(keys, []cedar.EntityUID{s.Entity})
		case ast.ScopeTypeIn:
			keys = append(keys, []cedar.EntityUID{s.Entity})
		case ast.ScopeTypeIsIn:
			keys = append(keys, []cedar.EntityUID{s.Entity})
		case ast.ScopeTypeInSet:
			keys = append(keys, s.Entities)
		}
	}
	return keys
}

// leastCrowded returns the keys whose most crowded entity has the fewest policies; the first of equal ones.
func leastCrowded(keys [][]cedar.EntityUID, crowd map[cedar.EntityUID]int) []cedar.EntityUID {
	worst := func(some []cedar.EntityUID) int {
		n := 0
		for _, k := range some {
			n = max(n, crowd[k])
		}
		return n
	}
	return slices.MinFunc(keys, func(a, b []cedar.EntityUID) int { return cmp.Compare(worst(a), worst(b)) })
}

// candidates returns the policies that can match a pair, as find does.
func (c *judgement) candidates(p pair) (fixed, asking rules) {
	x := &c.bundle.index
	if c.tool == nil || p.resource != c.tool.Entity.UID || x.known == nil {
		return x.find(&c.world, p.resource, c.principal, p.action)
	}
	key := asked{c.caller, c.tool, p.action.ID}
	found, ok := x.known.Get(key)
	if !ok {
		found.fixed, found.asking = x.find(&c.world, p.resource, c.principal, p.action)
		x.known.Put(key, found)
	}
	return found.fixed, found.asking
}

// find returns the candidates for a request in the order of the bundle: those
// whose answer is fixed, and those that look at the approval.
func (x index) find(world types.EntityGetter, req ...cedar.EntityUID) (fixed, asking rules) {
	hits := slices.Clone(x.always)
	for _, uid := range closure(world, req) {
		hits = append(hits, x.under[uid]...)
	}
	slices.Sort(hits)
	for _, i := range slices.Compact(hits) {
		if r := x.all[i]; r.reads != 0 {
			asking = append(asking, r)
		} else {
			fixed = append(fixed, r)
		}
	}
	return fixed, asking
}

// closure returns the entities and all their ancestors, each once.
func closure(world types.EntityGetter, from []cedar.EntityUID) []cedar.EntityUID {
	out := slices.Clone(from)
	for i := 0; i < len(out); i++ {
		e, ok := world.Get(out[i])
		if !ok {
			continue
		}
		for parent := range e.Parents.All() {
			if !slices.Contains(out, parent) {
				out = append(out, parent)
			}
		}
	}
	return out
}
