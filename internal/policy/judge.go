package policy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy/risk"
)

// Judge says what policy answers to a request: allow, ask with what the approval needs, or deny. With the request's
// Approval set it says allow or deny. It never fails: a request that cannot be judged is denied, with Errors.
func (e *Engine) Judge(_ context.Context, r palyra.Request) palyra.Verdict {
	s := e.live.Load()
	c, _ := judgements.Get().(*judgement)
	if err := s.take(c, s.withTime(r)); err != nil {
		return s.denyUnjudged(r, err)
	}
	v := c.judge()
	c.end()
	return v
}

// end gives the memory of a judgement to the next one.
func (c *judgement) end() {
	*c = judgement{asked: c.asked[:0]}
	judgements.Put(c)
}

// judgements that are over: nothing of them is in a verdict. One is some KiB, most of it a request.
var judgements = sync.Pool{New: func() any { return &judgement{asked: make(rules, 0, 16)} }}

// denyUnjudged is the verdict on a request that cannot be put into policy's terms.
func (s *state) denyUnjudged(r palyra.Request, err error) palyra.Verdict {
	v := palyra.Verdict{
		Effect: palyra.Deny, Errors: []string{err.Error()}, Risk: risk.Examine(r).Risk(), Bundle: s.bundle.digest, Snapshot: s.digest,
		Reason: "the call cannot be put into policy's terms, so it is denied",
		Remedy: "report this: a part of Palyra made a plan that policy cannot read",
	}
	if broken := (*brokenProject)(nil); errors.As(err, &broken) {
		v.Errors = []string{broken.Error()}
		v.Reason, v.Remedy = broken.Error()+", so calls in it are denied", "correct or remove "+ProjectDir+" in the workspace"
	}
	return v
}

// ruling is the answer for one pair.
type ruling struct {
	pair   pair
	effect palyra.Effect
	need   palyra.Need
	rules  rules // policies that decided
	errs   []string
	silent bool // no policy permits the pair under any answer
}

// judge asks about every pair; the strictest answer holds.
func (c *judgement) judge() palyra.Verdict {
	v := palyra.Verdict{Effect: palyra.Allow, Risk: c.risk, Bundle: c.bundle.digest, Snapshot: c.digest, Standing: c.standing}
	v.Looks = c.request.Effects != nil && looks(c.words) // such as git's refreshed index
	rulings := make([]ruling, len(c.pairs))
	v.Pairs = make([]palyra.PairResult, 0, len(c.pairs))
	for i, p := range c.pairs {
		r := c.rule(p)
		rulings[i] = r
		v.Effect = min(v.Effect, r.effect) // the stricter one
		v.Errors = append(v.Errors, r.errs...)
		v.Pairs = append(v.Pairs, palyra.PairResult{Pair: c.namesOf(p), Effect: r.effect, Policies: r.rules.ids()})
		if r.effect == palyra.Ask {
			v.Need = stricter(v.Need, r.need)
		}
	}
	agreed := v.Effect != palyra.Ask || len(rulings) == 1 || c.agree(&v, rulings)
	if v.Effect != palyra.Ask {
		v.Need = palyra.Need{}
	}
	c.explain(&v, rulings)
	if !agreed {
		denyDisagreement(&v)
	}
	return v
}

// rule asks about one pair: as things are, then up the ladder.
func (c *judgement) rule(p pair) ruling {
	q := c.newQuestion(p)
	if a := c.request.Approval; a != nil {
		return q.final(c.given(*a))
	}
	now := q.ask(answer{})
	if len(now.errs) > 0 || now.allow {
		return q.settle(now)
	}
	last := now
	for _, rung := range q.ladder() {
		last = q.ask(rung)
		if len(last.errs) > 0 {
			return q.settle(last)
		}
		if last.allow {
			return q.needs(rung, now, last)
		}
	}
	silent := len(last.forbids) == 0
	if silent {
		last.forbids = now.forbids
	}
	out := q.settle(last)
	out.silent = silent
	return out
}

// question is one pair with the policies that can speak about it.
type question struct {
	*judgement
	pair   pair
	asking rules
	read   parts // parts of the approval that any of the policies reads
	fixed  reply // reply of the policies that do not look at the approval
}

// reply is what a set of policies says.
type reply struct {
	allow            bool
	permits, forbids rules
	errs             []string
	failed           rules
}

func (c *judgement) newQuestion(p pair) *question {
	fixed, asking := c.candidates(p)
	q := &question{judgement: c, pair: p, asking: c.speaking(nil, asking, p, nil)}
	if !c.tracing { // who wants to know why is shown every step
		asking = q.asking
	}
	for _, r := range asking {
		q.read |= r.reads
	}
	q.fixed = c.evaluate(fixed, p, answer{})
	return q
}

// speaking appends to out the policies whose premises do not fail under an approval; nil: under any.
func (c *judgement) speaking(out, some rules, p pair, approval cedar.Value) rules {
	c.resource, c.approval = p.resource, approval
	for i, r := range some {
		switch {
		case c.stop != nil && c.stop():
			return append(out, some[i:]...)
		case r.unread == 0 || !r.first.Fails(c):
			out = append(out, r)
		}
	}
	return out
}

// ladder returns the approvals that are worth trying: none when no policy looks at the approval, or when a
// policy that does not look at it has already forbidden the pair.
func (q *question) ladder() []answer {
	if len(q.asking) == 0 || len(q.fixed.forbids) > 0 {
		return nil
	}
	return distinctRungs(q.read)
}

// ask is the answer of all policies under one approval.
func (q *question) ask(a answer) reply {
	r := q.fixed
	if len(q.asking) > 0 {
		more := q.evaluate(q.asking, q.pair, a)
		r.permits = append(r.permits[:len(r.permits):len(r.permits)], more.permits...)
		r.forbids = append(r.forbids[:len(r.forbids):len(r.forbids)], more.forbids...)
		r.errs = append(r.errs[:len(r.errs):len(r.errs)], more.errs...)
		r.failed = append(r.failed[:len(r.failed):len(r.failed)], more.failed...)
	}
	r.allow = len(r.errs) == 0 && len(r.forbids) == 0 && len(r.permits) > 0
	if q.tracing {
		q.note(q.pair, a, r)
	}
	return r
}

// evaluate lets Cedar evaluate some policies.
func (c *judgement) evaluate(some rules, p pair, a answer) reply {
	var r reply
	c.asked = c.speaking(c.asked[:0], some, p, approvalRecord(a))
	if some = c.asked; len(some) == 0 {
		return r
	}
	decision, diag := cedar.Authorize(c.asked.stoppable(c.stop), &c.world, cedar.Request{
		Principal: c.principal, Action: p.action, Resource: p.resource, Context: c.contextFor(some, a),
	})
	for _, reason := range diag.Reasons {
		one := c.bundle.byID[reason.PolicyID]
		if decision == cedar.Allow {
			r.permits = append(r.permits, one)
		} else {
			r.forbids = append(r.forbids, one)
		}
	}
	if c.stop != nil && c.stop() { // not all were asked
		r.errs = append(r.errs, "interrupted")
	}
	for _, e := range diag.Errors {
		one := c.bundle.byID[e.PolicyID]
		r.failed = append(r.failed, one)
		r.errs = append(r.errs, fmt.Sprintf("%s (%s:%d:%d): %s",
			one.id, one.hit.File, one.hit.Line, one.hit.Column, palyra.Clip(e.Message, 200)))
	}
	return r
}

// settle turns a reply into allow or deny.
func (q *question) settle(r reply) ruling {
	out := ruling{pair: q.pair, effect: palyra.Deny, rules: r.forbids, errs: r.errs}
	switch {
	case len(r.errs) > 0:
		out.rules = r.failed
	case r.allow:
		out.effect, out.rules = palyra.Allow, r.permits
	}
	return out
}

// final judges with the approval that was really given.
func (q *question) final(a answer) ruling { return q.settle(q.ask(a)) }

// needs is the ruling ask: the policies that block now, those that will permit, and whether an earlier answer
// could stand in for a new one.
func (q *question) needs(rung answer, now, then reply) ruling {
	lease := then
	if q.read&(partScope|partFresh) != 0 {
		lease = q.ask(rung.leased())
	}
	if len(lease.errs) > 0 {
		return q.settle(lease)
	}
	out := ruling{pair: q.pair, effect: palyra.Ask, need: rung.need()}
	// Nobody would see the next call's plan either, nor what the next run did.
	out.need.Fresh = !lease.allow || q.request.Plan.Unshown || q.request.Plan.Lasting || q.request.Effects != nil
	out.rules = append(now.forbids[:len(now.forbids):len(now.forbids)], then.permits...)
	return out
}

func (r rules) ids() []string {
	if len(r) == 0 {
		return nil
	}
	ids := make([]string, 0, len(r))
	for _, one := range r {
		ids = append(ids, string(one.id))
	}
	return ids
}

// looks reports whether a command is understood to its last word, and only looks.
func looks(c palyra.Command) bool {
	return c.Understood && c.Class == palyra.CommandReadOnly && !c.RunsCode
}
