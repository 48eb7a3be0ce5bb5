package policy

import (
	"strings"

	"palyra"
)

// agree makes one need of the needs of a call's pairs. The strictest of each part mostly satisfies all, but
// not where one pair refuses exactly what another demands: two people here, no more than one there. Then the
// first rung that all accept is the need. Where no rung is accepted by all, no answer could ever do, and the
// call is denied now, not after somebody was asked. It returns whether the pairs agree.
func (c *judgement) agree(v *palyra.Verdict, rulings []ruling) bool {
	all := make([]*question, len(c.pairs))
	var read parts
	for i, p := range c.pairs {
		all[i] = c.newQuestion(p)
		read |= all[i].read
	}
	merged := answer{
		votes: v.Need.Votes, other: v.Need.OtherPerson, device: v.Need.Device, separation: v.Need.Separation.Rank(),
		scope: palyra.ScopeOnce, fresh: true,
	}
	for _, a := range append([]answer{merged}, distinctRungs(read)...) {
		if accepted(all, a) {
			fresh := v.Need.Fresh || !accepted(all, a.leased())
			v.Need = a.need()
			v.Need.Fresh = fresh
			return true
		}
	}
	v.Effect = palyra.Deny
	for i := range rulings {
		if rulings[i].effect == palyra.Ask {
			rulings[i].effect, v.Pairs[i].Effect = palyra.Deny, palyra.Deny
		}
	}
	return false
}

// accepted reports whether an approval satisfies every pair.
func accepted(all []*question, a answer) bool {
	for _, q := range all {
		if !q.ask(a).allow {
			return false
		}
	}
	return true
}

// denyDisagreement words the denial of a call whose pairs accept no common answer.
func denyDisagreement(v *palyra.Verdict) {
	var names []string
	for _, h := range v.Policies {
		names = append(names, h.ID)
	}
	v.Reason = "no single answer could satisfy every policy, so nobody is asked: " + v.Reason
	v.Remedy = palyra.Clip("an operator must change the policies so that one answer satisfies them all: "+strings.Join(names, ", "), MaxNote)
}
