package policy

import (
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

// ladder is the fixed order in which approvals are tried: one operator,
// another person, signed by a device, both; then the same for two people and
// so on to five; and on each of these steps the key's separation from none
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
