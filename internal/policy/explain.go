package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy/risk"
)

// explain fills in the policies that decided and what to tell the caller.
func (c *judgement) explain(v *palyra.Verdict, rulings []ruling) {
	d := c.deciders(v, rulings)
	reasons, _ := d.all.texts()
	switch {
	case len(v.Errors) > 0:
		v.Reason = "a policy could not be evaluated, so the call is denied: " + strings.Join(d.all.ids(), ", ")
		v.Remedy = palyra.Clip("an operator must correct the policy: "+v.Errors[0], MaxNote)
	case v.Effect == palyra.Allow:
		v.Reason = reasons
	case v.Effect == palyra.Ask:
		v.Reason = "needs the approval of " + Describe(v.Need) + ": " + reasons
		v.Remedy = strings.TrimSuffix("have an operator answer the approval; "+c.questionAdvice(v.Need, d.all), "; ")
	case len(d.silent) > 0:
		v.Reason, v.Remedy = c.unpermittedText(d)
	default:
		v.Reason, v.Remedy = reasons, c.denialRemedy(d.all)
	}
	if v.Effect != palyra.Allow && len(v.Errors) == 0 && c.request.Effects == nil {
		v.Reason = strings.TrimSuffix(v.Reason+"; "+risk.Traits(c.request.Plan, c.words), "; ")
	}
	if v.Effect == palyra.Deny && c.request.Approval != nil && len(v.Errors) == 0 {
		v.Reason = "the approval given does not suffice: " + v.Reason
	}
}

// deciders are the parts that a verdict is made of.
type deciders struct {
	all    rules  // policies that decided
	hard   rules  // policies among them that forbid under any answer
	silent []pair // denied because nothing permits
	asks   bool   // the call would be a question if the silent pairs were permitted
}

// deciders sorts the rulings that made the verdict, and notes their policies in it.
func (c *judgement) deciders(v *palyra.Verdict, rulings []ruling) (d deciders) {
	for _, r := range rulings {
		d.asks = d.asks || r.effect == palyra.Ask
		if len(v.Errors) > 0 && len(r.errs) == 0 || r.effect != v.Effect {
			continue
		}
		quiet := r.effect == palyra.Deny && (r.silent || len(r.rules) == 0)
		if quiet {
			d.silent = append(d.silent, r.pair)
			d.asks = d.asks || len(r.rules) > 0 // an approval would satisfy these
		}
		for _, one := range r.rules {
			if !slices.Contains(d.all, one) {
				d.all = append(d.all, one)
				v.Policies = append(v.Policies, one.hit)
			}
			if !quiet && !slices.Contains(d.hard, one) {
				d.hard = append(d.hard, one)
			}
		}
	}
	return d
}

// questionAdvice is the remedy of the policies behind a question. The advice of permits is left out where
// another permit would not save the question.
func (c *judgement) questionAdvice(n palyra.Need, decided rules) string {
	forbids := decided.forbidding()
	if n.Fresh || c.irreversible() || len(forbids) > 0 || risk.Unseen(c.request.Plan) != "" {
		decided = forbids
	}
	_, remedies := decided.texts()
	return remedies
}

// forbidding returns the policies that forbid.
func (r rules) forbidding() rules {
	return slices.DeleteFunc(slices.Clone(r), func(one *rule) bool { return one.policy.Effect() == cedar.Permit })
}

// unpermittedText words a denial that comes, at least in part, from no policy permitting the call: the
// smallest permits that would turn it, and the answer they would turn it to.
func (c *judgement) unpermittedText(d deciders) (reason, remedy string) {
	p := d.silent[0]
	reason = fmt.Sprintf("no policy permits %s on %s for %s", p.action.ID, p.resource, c.request.Principal)
	if words := presetWords[c.bundle.preset]; words != "" {
		reason += " (" + words + ")"
	}
	if c.request.Effects != nil { // a permit for this call would keep whatever its next run does
		return palyra.Clip(reason, MaxNote), "an operator can add a rule about " + KeepAction + " to the policy bundle"
	}
	permits := make([]string, len(d.silent))
	for i, p := range d.silent {
		permits[i] = strings.ReplaceAll(c.permit(p), "\n", " ")
	}
	text := strings.Join(permits, " ")
	turn, then := "an operator can add", ""
	if d.asks {
		turn = "an operator can make it a question: add"
		if then = c.questionAdvice(palyra.Need{Fresh: true}, d.approvable()); then != "" {
			then = " Then " + then
		}
	}
	remedy = turn + " to the policy bundle: " + text + then
	if len(text) > maxPermit { // half a policy is useless, so name the command that writes all of it
		remedy = turn + " a permit for it to the policy bundle, which 'palyra policy why' with the id of the call writes." + then
	}
	reason = palyra.Clip(reason, MaxNote)
	if reasons, _ := d.all.texts(); reasons != "" {
		reason = reasons + "; and " + reason
	}
	if how := c.denialRemedy(d.hard); how != "" { // a permit alone does not lift the forbids
		remedy = how + "; and " + remedy
	}
	return reason, remedy
}

// approvable returns the policies that an approval would satisfy.
func (d deciders) approvable() rules {
	return slices.DeleteFunc(slices.Clone(d.all), func(r *rule) bool { return slices.Contains(d.hard, r) })
}

// maxPermit bounds a policy that stands in a sentence.
const maxPermit = 1024

// denialRemedy is the remedy of a denial by policies. It names them where their authors gave no remedy.
func (c *judgement) denialRemedy(decided rules) string {
	_, remedies := decided.texts()
	if remedies != "" || len(decided) == 0 {
		return remedies
	}
	var how []string
	for _, r := range decided {
		how = append(how, exemptText(r.hit))
	}
	return palyra.Clip("an operator can "+strings.Join(how, ", and "), MaxNote)
}

// texts joins the distinct reasons and remedies of policies. A policy without a reason is named instead.
func (r rules) texts() (reasons, remedies string) {
	if len(r) == 1 && r[0].hit.Reason != "" {
		return r[0].hit.Reason, r[0].hit.Remedy
	}
	var why, how []string
	for _, one := range r {
		reason := one.hit.Reason
		if reason == "" {
			reason = fmt.Sprintf("policy %s (%s:%d)", one.id, one.hit.File, one.hit.Line)
		}
		if !slices.Contains(why, reason) {
			why = append(why, reason)
		}
		if one.hit.Remedy != "" && !slices.Contains(how, one.hit.Remedy) {
			how = append(how, one.hit.Remedy)
		}
	}
	return strings.Join(why, "; "), strings.Join(how, "; ")
}

// Describe says in words what an approval needs.
func Describe(n palyra.Need) string {
	who := "one operator"
	switch {
	case n.Votes > 1 && n.OtherPerson:
		who = strconv.Itoa(n.Votes) + " people, not only the owner"
	case n.Votes > 1:
		who = strconv.Itoa(n.Votes) + " people"
	case n.OtherPerson:
		who = "another person than the owner"
	}
	if n.Device {
		who += ", signed by a paired device"
	}
	switch n.Separation {
	case palyra.SeparationPassphrase:
		who += ", with a key behind a passphrase"
	case palyra.SeparationDevice:
		who += ", with a key on another device"
	case palyra.SeparationOtherUID:
		who += ", with a key of another user account"
	}
	if n.Fresh {
		who += ", for this call only"
	}
	return who
}

// Explanation is a verdict with everything it was made of. It never contradicts the verdict itself.
type Explanation struct {
	Verdict  palyra.Effect       `json:"verdict"`
	Need     palyra.Need         `json:"need,omitzero"`
	Layer    palyra.Layer        `json:"layer,omitempty"` // what stands in the way: policy, approval; empty when nothing does
	Reason   string              `json:"reason"`
	Remedy   string              `json:"remedy"`
	Policies []palyra.PolicyHit  `json:"policies"`
	Errors   []string            `json:"errors,omitempty"`
	Pairs    []palyra.PairResult `json:"pairs"`
	Risk     palyra.Risk         `json:"risk"`
	Rungs    []Rung              `json:"rungs"`    // every evaluation, in order
	Context  json.RawMessage     `json:"context"`  // as Cedar saw it, without an approval or with the one given
	Entities json.RawMessage     `json:"entities"` // what policies could look up
	Flips    []Flip              `json:"flips,omitempty"`
	Then     string              `json:"then,omitempty"` // the action that is judged when the run is over: effects.keep

	answer   palyra.Verdict
	Bundle   palyra.Digest `json:"bundle_digest"`
	Snapshot palyra.Digest `json:"snapshot_digest"`
}

// Answer is the verdict that is explained, as Judge gives it.
func (x Explanation) Answer() palyra.Verdict { return x.answer }

// Rung is one evaluation of one pair under one approval.
type Rung struct {
	palyra.Pair
	Approval palyra.Need `json:"approval"` // no votes: evaluated without an approval
	Allowed  bool        `json:"allowed"`
	Policies []string    `json:"policies,omitempty"`
	Errors   []string    `json:"errors,omitempty"`
}

// Why judges a request and shows how, and what would turn the answer.
func (e *Engine) Why(ctx context.Context, r palyra.Request) Explanation {
	s := e.live.Load()
	c, err := s.newCall(s.withTime(r))
	if err != nil {
		return explanation(s.denyUnjudged(r, err))
	}
	c.tracing = true
	v := c.judge()
	x := explanation(v)
	x.Rungs = c.trace
	if v.Effect != palyra.Deny && r.Effects == nil && r.Plan.Staging.Staged() {
		x.Then = KeepAction
	}
	seen := answer{}
	if r.Approval != nil {
		seen = factsAnswer(*r.Approval)
	}
	x.Context = asJSON(c.context(seen))
	x.Entities = asJSON(c.world.own)
	if x.Verdict != palyra.Allow && r.Effects == nil {
		x.Flips = c.flips(ctx, v)
	}
	return x
}

func explanation(v palyra.Verdict) Explanation {
	x := Explanation{
		answer: v, Verdict: v.Effect, Need: v.Need, Reason: v.Reason, Remedy: v.Remedy, Policies: v.Policies, Errors: v.Errors,
		Pairs: v.Pairs, Risk: v.Risk, Bundle: v.Bundle, Snapshot: v.Snapshot,
		Context: json.RawMessage("{}"), Entities: json.RawMessage("[]"),
	}
	switch v.Effect {
	case palyra.Deny:
		x.Layer = palyra.LayerPolicy
	case palyra.Ask:
		x.Layer = palyra.LayerApproval
	}
	if x.Policies == nil {
		x.Policies = []palyra.PolicyHit{}
	}
	return x
}

// note keeps one evaluation for Why.
func (c *judgement) note(p pair, a answer, r reply) {
	rung := Rung{Pair: c.namesOf(p), Approval: a.need(), Allowed: r.allow, Errors: r.errs}
	rung.Approval.Fresh = a.fresh
	rung.Policies = append(r.forbids.ids(), r.permits.ids()...)
	c.trace = append(c.trace, rung)
}

// asJSON shows Cedar values; null when they have no JSON form.
func asJSON[T cedar.Record | []cedar.Entity](v T) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
