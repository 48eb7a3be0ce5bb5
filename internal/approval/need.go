package approval

import (
	"slices"

	"palyra"
)

// Facts puts a decision about a call of owner's agent into policy's terms. Only an allow has any. Of several
// votes the weakest decides how they were signed.
func (d *Desk) Facts(owner palyra.Principal, dec palyra.Decision) palyra.ApprovalFacts {
	if dec.Answer != palyra.AnswerAllow {
		return palyra.ApprovalFacts{}
	}
	f := factsOf(owner, dec.Votes)
	f.Scope, f.Fresh = dec.Scope, !dec.Reused
	return f
}

// factsOf counts allows: distinct people, whether any of them is not the owner,
// whether all signed with a device, the lowest separation.
func factsOf(owner palyra.Principal, votes []palyra.Vote) palyra.ApprovalFacts {
	var people []palyra.Principal
	f := palyra.ApprovalFacts{Separation: palyra.SeparationNone}
	for _, v := range votes {
		if v.Answer != palyra.AnswerAllow {
			continue
		}
		if len(people) == 0 {
			f.Device, f.Separation = v.Device, v.Separation
		}
		if !slices.Contains(people, v.By) {
			people = append(people, v.By)
		}
		f.OtherPerson = f.OtherPerson || v.By != owner
		f.Device = f.Device && v.Device
		f.Separation = weaker(f.Separation, v.Separation)
	}
	f.Votes = len(people)
	return f
}

func weaker(a, b palyra.Separation) palyra.Separation {
	if b.Rank() < a.Rank() {
		return b
	}
	return a
}

// needMet reports whether the facts are all that policy needs.
func needMet(n palyra.Need, f palyra.ApprovalFacts) bool {
	return f.Votes >= max(1, n.Votes) && (f.OtherPerson || !n.OtherPerson) && (f.Device || !n.Device) &&
		f.Separation.Rank() >= needRank(n.Separation)
}

// needRank ranks a demanded separation. One that nobody knows is out of reach.
func needRank(s palyra.Separation) int {
	if s == "" || knownSeparation(s) {
		return s.Rank()
	}
	return palyra.SeparationOtherUID.Rank() + 1
}

func knownSeparation(s palyra.Separation) bool {
	return s == palyra.SeparationNone || s.Rank() > 0
}
