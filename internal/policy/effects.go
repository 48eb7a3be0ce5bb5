package policy

import (
	_ "embed" // the policies that are implied
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"palyra"
	"palyra/internal/policy/entity"
)

// KeepAction is the action of keeping what a staged run did. Rules about calls say whether it may run; rules about this
// action say, when it is over, whether what it wrote becomes the workspace's.
const KeepAction = "effects.keep"

const effectsName, liveAskedName, lastingName = "effects", "live_asked", entity.LastingName

var keepAction = actionUID(KeepAction)

// Attributes that only calls have, and that only what they did has.
var (
	callOnly = attrNamed("door") | attrNamed("door_allowed") | attrNamed("input_bytes") | attrNamed("calls_used") |
		attrNamed("budget") | attrNamed("mechanisms") | attrNamed("limits") | attrNamed("probed") | attrNamed("removes") |
		attrNamed(liveAskedName)
	keepOnly = attrNamed(effectsName)
)

// hidden are the attributes that the action under judgement has not.
func (c *judgement) hidden() attrs {
	switch {
	case c.action:
		return allAttrs
	case c.request.Effects != nil:
		return callOnly
	}
	return keepOnly
}

// given is an approval that was really given. One that was given before the run, or for more than it, is none for
// what the run did: nobody has seen that.
func (c *judgement) given(a palyra.ApprovalFacts) answer {
	if c.request.Effects != nil && (!a.Fresh || a.Scope != palyra.ScopeOnce) {
		return answer{}
	}
	return factsAnswer(a)
}

// The policies of a bundle that has none about effects.keep, such as one from before there was the action. What it
// let run wrote directly to the workspace, except to names that other programs trust, which were sealed. So those are
// asked about, and everything else is kept. A bundle that permits calls because they are staged counts on what they
// did being judged: without a rule for that it is asked about. Their ids are none that a bundle can use.
var (
	//go:embed implied/kept.cedar
	impliedKept string
	//go:embed implied/asked.cedar
	impliedAsked string
	//go:embed implied/live.cedar
	impliedLive string // a bundle that does not know that callers can want to write directly asks about it
	//go:embed implied/lasting.cedar
	impliedLasting string // nor that what a run did may not be undone later
)

// imply adds what a bundle without a rule about effects.keep, writing directly, or what cannot be undone, says about it.
func (b *Bundle) imply() error {
	about, staged, live, lasting := false, false, false, false
	for _, r := range b.rules {
		p := (*ast.Policy)(r.policy.AST())
		about = about || slices.Contains(slices.Concat(scopeKeys(p)...), keepAction)
		staged = staged || r.policy.Effect() == cedar.Permit && looksAt(p, "staged")
		live, lasting = live || looksAt(p, liveAskedName), lasting || looksAt(p, lastingName)
	}
	texts := ""
	for _, t := range []struct {
		text string
		is   bool
	}{{impliedAsked, !about}, {impliedKept, !about && !staged}, {impliedLive, !live}, {impliedLasting, !lasting}} {
		if t.is {
			texts += t.text
		}
	}
	list, err := cedar.NewPolicyListFromBytes("", []byte(texts))
	if err != nil {
		return fmt.Errorf("policy: implied rules: %w", err)
	}
	for _, p := range list {
		r := newRule(string(p.Annotations()["id"]), p)
		r.hit.Line, r.hit.Column = 0, 0 // it stands in no file
		b.implied, b.byID[r.id] = append(b.implied, r), r
	}
	return nil
}

// looksAt reports whether a policy's conditions look at a member of the context, or of the effects in it.
func looksAt(p *ast.Policy, name cedar.String) (found bool) {
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			of, attr := member(n)
			found = found || attr == name && (isContext(of) || name == lastingName)
			return !found
		})
	}
	return found
}

// newIndex files the bundle's policies and what it implies.
func (b *Bundle) newIndex() index { return newIndex(slices.Concat(b.rules, b.implied)) }
