package policy

import (
	"iter"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"palyra"
)

// rule is a policy with its name and place. reads says which parts of the
// approval its answer may depend on; a rule that reads none is evaluated once
// per request.
type rule struct {
	id     cedar.PolicyID
	policy *cedar.Policy
	reads  parts
	hit    palyra.PolicyHit
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

// index finds the policies that can match a request, so that the cost of a
// verdict depends on them and not on the size of the bundle. Each policy is
// filed under one entity its scope names: the resource, else the principal,
// else the action (under each one of a list). Policies whose scope names none
// are always looked at.
//
// A policy that is left out cannot have matched: Cedar evaluates the scope
// first, the scope demands that the filed entity is the request's entity or an
// ancestor of it, and a scope never fails to evaluate.
type index struct {
	all    rules
	under  map[cedar.EntityUID][]int
	always []int
}

func newIndex(all rules) index {
	x := index{all: all, under: map[cedar.EntityUID][]int{}}
	for i, r := range all {
		keys, filed := scopeKeys((*ast.Policy)(r.policy.AST()))
		if !filed {
			x.always = append(x.always, i)
		}
		for _, k := range keys {
			x.under[k] = append(x.under[k], i)
		}
	}
	return x
}

// scopeKeys returns the entities to file a policy under; filed is false when
// its scope names none.
func scopeKeys(p *ast.Policy) (keys []cedar.EntityUID, filed bool) {
	for _, scope := range []ast.IsScopeNode{p.Resource, p.Principal, p.Action} {
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			return []cedar.EntityUID{s.Entity}, true
		case ast.ScopeTypeIn:
			return []cedar.EntityUID{s.Entity}, true
		case ast.ScopeTypeIsIn:
			return []cedar.EntityUID{s.Entity}, true
		case ast.ScopeTypeInSet:
			return s.Entities, true
		}
	}
	return nil, false
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
