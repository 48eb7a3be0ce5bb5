package policy

import (
	"strings"

	"palyra"
)

// agree makes one need of what the pairs of a call need. The strictest of each part
// is mostly it, but not where one pair is content with exactly what another is not:
// two people here, no more than one there. Then the first rung that all accept is
// the need. Where there is none no answer could ever do, and the call is denied
// now, not after somebody was asked. It returns whether they agree.
func (c *call) agree(v *palyra.Verdict, rulings []ruling) bool {
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
	for _, a := range append([]answer{merged}, climb(read)...) {
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

// torn words the denial of a call whose pairs agree on no answer.
func torn(v *palyra.Verdict) {
	var names []string
	for _, h := range v.Policies {
		names = append(names, h.ID)
	}
	v.Reason = "no answer could satisfy all that is asked of one, so nobody is asked: " + v.Reason
	v.Remedy = palyra.Clip("an operator must change the policies so that one answer does: "+strings.Join(names, ", "), MaxNote)
}
