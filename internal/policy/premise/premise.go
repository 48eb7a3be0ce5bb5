// Package premise decides, before Cedar is asked, that a policy cannot match: most policies of a bundle speak about
// circumstances that most calls are not in, and say so in the first words of their conditions.
//
// A Premise is the beginning of a policy's conditions, as far as it consists of tests that are simple here: attributes
// of the context and of the resource, compared with constants. Cedar evaluates conditions from the left and stops at
// the first that is false, so a beginning that is false makes the policy neither match nor fail. Whatever is not plainly
// false is left to Cedar, which alone says that a policy matches: a Premise can only save work.
//
// Values are compared by Cedar's own types.
package premise

import (
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Facts are what a request has.
type Facts interface {
	// Attribute is a member of the context by its number; nil: there is none, or nobody knows it yet.
	Attribute(number int) types.Value
	// Resource is an attribute of the resource; nil: there is none.
	Resource(name types.String) types.Value
}

// Names tells the numbers of the context's members. What is not known is never decided here; maybe says of a member
// that nobody may know it yet, so that its absence means nothing.
type Names func(name types.String) (number int, maybe, known bool)

// Premise is the beginning of a policy's conditions. The zero Premise decides nothing.
type Premise struct{ holds test }

// Of is the premise of a policy.
func Of(p *ast.Policy, names Names) Premise {
	var parts []test
	for _, c := range p.Conditions {
		t := names.test(c.Body)
		if t == nil {
			break
		}
		if c.Condition == ast.ConditionUnless {
			t = not(t)
		}
		parts = append(parts, t)
	}
	var all test
	for i := len(parts) - 1; i >= 0; i-- {
		all = and(parts[i], all)
	}
	return Premise{all}
}

// Fails reports that the policy neither matches nor fails, whatever else there is.
func (p Premise) Fails(f Facts) bool { return p.holds != nil && p.holds(f) == no }

// truth is what a test finds out.
type truth uint8

const (
	open truth = iota // Cedar must be asked: also for everything that it would answer with an error
	yes
	no
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

type test func(Facts) truth

// value is a part of the request or a constant; it returns nil where Cedar must be asked.
type value func(Facts) types.Value

// test is the test that a node makes; nil: none that is simple.
func (names Names) test(n ast.IsNode) test {
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		return and(names.test(n.Left), names.test(n.Right))
	case ast.NodeTypeOr:
		return or(names.test(n.Left), names.test(n.Right))
	case ast.NodeTypeNot:
		return not(names.test(n.Arg))
	case ast.NodeTypeHas:
		return names.has(n)
	case ast.NodeTypeEquals:
		return names.compare(n.BinaryNode, func(a, b types.Value) truth { return truthOf(a.Equal(b)) })
	case ast.NodeTypeNotEquals:
		return names.compare(n.BinaryNode, func(a, b types.Value) truth { return truthOf(!a.Equal(b)) })
	case ast.NodeTypeLessThan:
		return names.compare(n.BinaryNode, order(func(a, b types.Long) bool { return a < b }))
	case ast.NodeTypeLessThanOrEqual:
		return names.compare(n.BinaryNode, order(func(a, b types.Long) bool { return a <= b }))
	case ast.NodeTypeGreaterThan:
		return names.compare(n.BinaryNode, order(func(a, b types.Long) bool { return a > b }))
	case ast.NodeTypeGreaterThanOrEqual:
		return names.compare(n.BinaryNode, order(func(a, b types.Long) bool { return a >= b }))
	case ast.NodeTypeContains:
		return names.compare(n.BinaryNode, contains)
	case ast.NodeTypeContainsAny:
		return names.compare(n.BinaryNode, containsAny)
	case ast.NodeTypeIsEmpty:
		return check(names.value(n.Arg), empty)
	}
	return check(names.value(n), isTrue)
}

// and, or and not are Cedar's, which look at the right side only where the left one leaves it open; nil is a side that
// is not simple.
func and(a, b test) test {
	if a == nil || b == nil {
		return leftAlone(a, yes)
	}
	return func(f Facts) truth {
		if t := a(f); t != yes {
			return t
		}
		return b(f)
	}
}

func or(a, b test) test {
	if a == nil || b == nil {
		return leftAlone(a, no)
	}
	return func(f Facts) truth {
		if t := a(f); t != no {
			return t
		}
		return b(f)
	}
}

func not(a test) test {
	if a == nil {
		return nil
	}
	return func(f Facts) truth {
		switch a(f) {
		case yes:
			return no
		case no:
			return yes
		}
		return open
	}
}

// leftAlone is a left side whose right one is not simple: what it leaves to that is open.
func leftAlone(a test, left truth) test {
	if a == nil {
		return nil
	}
	return func(f Facts) truth {
		if t := a(f); t != left {
			return t
		}
		return open
	}
}

// value is what a node stands for; nil: nothing simple.
func (names Names) value(n ast.IsNode) value {
	switch n := n.(type) {
	case ast.NodeValue:
		return func(Facts) types.Value { return n.Value }
	case ast.NodeTypeSet:
		return constants(n)
	case ast.NodeTypeAccess:
		if v, ok := n.Arg.(ast.NodeTypeVariable); ok {
			return names.member(v.Name, n.Value)
		}
		if of := names.value(n.Arg); of != nil {
			return func(f Facts) types.Value {
				if rec, ok := of(f).(types.Record); ok {
					v, _ := rec.Get(n.Value)
					return v
				}
				return nil
			}
		}
	}
	return nil
}

func (names Names) member(of, name types.String) value {
	switch of {
	case "context":
		if i, _, known := names(name); known {
			return func(f Facts) types.Value { return f.Attribute(i) }
		}
	case "resource":
		return func(f Facts) types.Value { return f.Resource(name) }
	}
	return nil
}

// constants is a set that is written down.
func constants(n ast.NodeTypeSet) value {
	list := make([]types.Value, 0, len(n.Elements))
	for _, e := range n.Elements {
		c, ok := e.(ast.NodeValue)
		if !ok {
			return nil
		}
		list = append(list, c.Value)
	}
	set := types.NewSet(list...)
	return func(Facts) types.Value { return set }
}

// has is the test for a member of the context.
func (names Names) has(n ast.NodeTypeHas) test {
	if v, ok := n.Arg.(ast.NodeTypeVariable); !ok || v.Name != "context" {
		return nil
	}
	i, maybe, known := names(n.Value)
	if !known || maybe {
		return nil
	}
	return func(f Facts) truth { return truthOf(f.Attribute(i) != nil) }
}

func check(v value, is func(types.Value) truth) test {
	if v == nil {
		return nil
	}
	return func(f Facts) truth { return is(v(f)) }
}

// compare is a test of two values, both of which are there.
func (names Names) compare(n ast.BinaryNode, is func(a, b types.Value) truth) test {
	a, b := names.value(n.Left), names.value(n.Right)
	if a == nil || b == nil {
		return nil
	}
	return func(f Facts) truth {
		x := a(f)
		if x == nil {
			return open
		}
		if y := b(f); y != nil {
			return is(x, y)
		}
		return open
	}
}

func isTrue(v types.Value) truth {
	if b, ok := v.(types.Boolean); ok {
		return truthOf(bool(b))
	}
	return open
}

func empty(v types.Value) truth {
	if s, ok := v.(types.Set); ok {
		return truthOf(s.Len() == 0)
	}
	return open
}

func order(is func(a, b types.Long) bool) func(a, b types.Value) truth {
	return func(a, b types.Value) truth {
		x, ok1 := a.(types.Long)
		y, ok2 := b.(types.Long)
		if !ok1 || !ok2 {
			return open
		}
		return truthOf(is(x, y))
	}
}

func contains(a, b types.Value) truth {
	if s, ok := a.(types.Set); ok {
		return truthOf(s.Contains(b))
	}
	return open
}

func containsAny(a, b types.Value) truth {
	s, ok1 := a.(types.Set)
	any, ok2 := b.(types.Set)
	switch {
	case !ok1 || !ok2:
		return open
	case s.Len() == 0:
		return no
	}
	for one := range any.All() {
		if s.Contains(one) {
			return yes
		}
	}
	return no
}
