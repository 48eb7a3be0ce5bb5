package policy

import (
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// answer is an approval as policy sees it: real, or tried out by the ladder. The zero answer is no approval.
type answer struct {
	votes      int
	other      bool
	device     bool
	separation int // rank
	scope      palyra.Scope
	fresh      bool
}

// MaxVotes is the largest quorum a policy can demand.
const MaxVotes = 5

// separations are the levels by rank.
var separations = []palyra.Separation{
	palyra.SeparationNone, palyra.SeparationPassphrase, palyra.SeparationDevice, palyra.SeparationOtherUID,
}

// ladder is the fixed order in which approvals are tried: one operator, another person, signed by a device, both;
// then the same for two people and so on to five; and on each of these steps the key's separation from none
// upwards. Each is the best of its kind: given for this call alone.
var ladder = buildLadder()

func buildLadder() []answer {
	var out []answer
	for votes := 1; votes <= MaxVotes; votes++ {
		for kind := range 4 {
			for rank := range separations {
				out = append(out, answer{
					votes: votes, other: kind&1 != 0, device: kind&2 != 0, separation: rank,
					scope: palyra.ScopeOnce, fresh: true,
				})
			}
		}
	}
	return out
}

// distinctRungs returns the rungs that policies can tell apart when they read only some parts. It keeps the
// first of those that look the same to them, which asks for least.
func distinctRungs(read parts) []answer {
	var out []answer
	for _, a := range ladder {
		if a.votes > 1 && read&partVotes == 0 || a.other && read&partOther == 0 ||
			a.device && read&partDevice == 0 || a.separation > 0 && read&partSeparation == 0 {
			continue
		}
		out = append(out, a)
	}
	return out
}

// leased is the same approval, coming from an earlier, wider answer.
func (a answer) leased() answer {
	a.fresh, a.scope = false, palyra.ScopeSession
	return a
}

// need returns the need that exactly this approval satisfies.
func (a answer) need() palyra.Need {
	n := palyra.Need{Votes: a.votes, OtherPerson: a.other, Device: a.device}
	if a.separation > 0 {
		n.Separation = separations[a.separation]
	}
	return n
}

// factsAnswer is a real approval. Without a vote it is the zero answer.
func factsAnswer(f palyra.ApprovalFacts) answer {
	if f.Votes < 1 {
		return answer{}
	}
	return answer{
		votes: f.Votes, other: f.OtherPerson, device: f.Device, separation: f.Separation.Rank(), scope: f.Scope, fresh: f.Fresh,
	}
}

func (a answer) record() cedar.Record {
	return cedar.NewRecord(cedar.RecordMap{
		"granted": cedar.Boolean(a.votes > 0), "votes": cedar.Long(a.votes), "other_person": cedar.Boolean(a.other),
		"device": cedar.Boolean(a.device), "separation": cedar.Long(a.separation), "scope": cedar.String(a.scope),
		"fresh": cedar.Boolean(a.fresh),
	})
}

// stricter merges two needs: whoever meets the result meets both.
func stricter(a, b palyra.Need) palyra.Need {
	out := palyra.Need{
		Votes: max(a.Votes, b.Votes), OtherPerson: a.OtherPerson || b.OtherPerson, Device: a.Device || b.Device,
		Separation: a.Separation, Fresh: a.Fresh || b.Fresh,
	}
	if b.Separation.Rank() > a.Separation.Rank() {
		out.Separation = b.Separation
	}
	return out
}

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
