package policy

import (
	"fmt"
	"strings"
	"testing"

	"palyra"
)

// permitWhen is a bundle of one permit for every call.
func permitWhen(t testing.TB, cond string) *Bundle {
	t.Helper()
	return load(t, fmt.Sprintf(`@id("p") @reason("why") permit (principal, action in Action::"call", resource) when { %s };`, cond))
}

// demand is a condition that wants exactly a need, and its facts.
func demand(n palyra.Need) string {
	c := []string{"context.approval.granted", fmt.Sprintf("context.approval.votes >= %d", n.Votes)}
	if n.OtherPerson {
		c = append(c, "context.approval.other_person")
	}
	if n.Device {
		c = append(c, "context.approval.device")
	}
	if r := n.Separation.Rank(); r > 0 {
		c = append(c, fmt.Sprintf("context.approval.separation >= %d", r))
	}
	if n.Fresh {
		c = append(c, "context.approval.fresh")
	}
	return strings.Join(c, " && ")
}

func meets(n palyra.Need) *palyra.ApprovalFacts {
	return &palyra.ApprovalFacts{
		Votes: n.Votes, OtherPerson: n.OtherPerson, Device: n.Device, Separation: n.Separation, Scope: palyra.ScopeOnce, Fresh: n.Fresh,
	}
}

func needs() []palyra.Need {
	var out []palyra.Need
	for votes := 1; votes <= MaxVotes; votes++ {
		for bits := range 8 {
			for _, sep := range []palyra.Separation{"", palyra.SeparationPassphrase, palyra.SeparationDevice, palyra.SeparationOtherUID} {
				out = append(out, palyra.Need{Votes: votes, OtherPerson: bits&1 != 0, Device: bits&2 != 0, Fresh: bits&4 != 0, Separation: sep})
			}
		}
	}
	return out
}

// For every need there is: a policy that demands it asks for it, is content
// with it, and is not content with anything less.
func TestLadderFindsEveryNeed(t *testing.T) {
	for _, n := range needs() {
		e := engine(t, permitWhen(t, demand(n)))
		r := write("a.txt")
		v := e.Judge(t.Context(), r)
		if v.Effect != palyra.Ask || v.Need != n {
			t.Fatalf("demand %+v: %s, need %+v", n, v.Effect, v.Need)
		}
		r.Approval = meets(v.Need)
		if v := e.Judge(t.Context(), r); v.Effect != palyra.Allow {
			t.Fatalf("need %+v is met and still %s: %s", n, v.Effect, v.Reason)
		}
		for _, less := range weaker(n) {
			r.Approval = meets(less)
			if v := e.Judge(t.Context(), r); v.Effect != palyra.Deny {
				t.Fatalf("demand %+v: %s with %+v", n, v.Effect, less)
			}
		}
	}
}

// weaker are the needs one step below n.
func weaker(n palyra.Need) []palyra.Need {
	var out []palyra.Need
	add := func(f func(*palyra.Need)) {
		m := n
		f(&m)
		if m != n {
			out = append(out, m)
		}
	}
	add(func(m *palyra.Need) { m.Votes-- })
	add(func(m *palyra.Need) { m.OtherPerson = false })
	add(func(m *palyra.Need) { m.Device = false })
	add(func(m *palyra.Need) { m.Fresh = false })
	if r := n.Separation.Rank(); r > 0 {
		add(func(m *palyra.Need) { m.Separation = separations[r-1] })
	}
	return out
}

// The order of the ladder decides between alternatives.
func TestLadderOrder(t *testing.T) {
	a := "context.approval."
	for _, c := range []struct {
		cond string
		want palyra.Need
	}{
		{a + "granted", palyra.Need{Votes: 1}},
		{a + "votes >= 2 || " + a + "device", palyra.Need{Votes: 1, Device: true}},
		{a + "device || " + a + "other_person", palyra.Need{Votes: 1, OtherPerson: true}},
		{a + "other_person || " + a + "separation >= 3", palyra.Need{Votes: 1, Separation: palyra.SeparationOtherUID}},
		{a + "votes >= 5 || (" + a + "votes >= 3 && " + a + "device)", palyra.Need{Votes: 3, Device: true}},
		{a + `granted && ` + a + `scope == "once"`, palyra.Need{Votes: 1, Fresh: true}}, // a grant from before is never once
		{a + "votes == 4", palyra.Need{Votes: 4}},                                       // also what only one rung satisfies is found
		{a + "granted && !" + a + "device", palyra.Need{Votes: 1}},
	} {
		v := engine(t, permitWhen(t, c.cond)).Judge(t.Context(), write("a.txt"))
		if v.Effect != palyra.Ask || v.Need != c.want {
			t.Errorf("%s: %s %+v, want %+v", c.cond, v.Effect, v.Need, c.want)
		}
	}
}

func TestLadderEnds(t *testing.T) {
	for _, cond := range []string{
		"context.approval.votes >= 6", "context.approval.separation >= 4", `context.approval.scope == "forever"`,
		"false", "context.approval.granted && !context.approval.granted",
	} {
		if v := engine(t, permitWhen(t, cond)).Judge(t.Context(), write("a.txt")); v.Effect != palyra.Deny || v.Need != (palyra.Need{}) {
			t.Errorf("%s: %s %+v", cond, v.Effect, v.Need)
		}
	}
}

func TestLadderRisesInEveryPart(t *testing.T) {
	if len(ladder) != MaxVotes*4*len(separations) {
		t.Fatalf("%d rungs", len(ladder))
	}
	seen := map[answer]bool{}
	for i, a := range ladder {
		if seen[a] || !a.fresh || a.scope != palyra.ScopeOnce {
			t.Errorf("rung %d: %+v", i, a)
		}
		seen[a] = true
		if i > 0 && a.votes < ladder[i-1].votes {
			t.Errorf("rung %d asks for fewer people than the one before", i)
		}
	}
}

// Only rungs that policies can tell apart are climbed, the least first.
func TestClimb(t *testing.T) {
	for read, want := range map[parts]int{
		0: 1, partGranted: 1, partScope | partFresh: 1, partVotes: MaxVotes, partOther: 2, partDevice: 2, partSeparation: len(separations),
		partOther | partDevice: 4, partVotes | partSeparation: MaxVotes * len(separations), allParts: len(ladder),
	} {
		got := distinctRungs(read)
		if len(got) != want || got[0] != ladder[0] {
			t.Errorf("%b: %d rungs, want %d", read, len(got), want)
		}
	}
}

// Facts without a vote are no approval, however strong they look.
func TestFactsWithoutAVote(t *testing.T) {
	e := engine(t, permitWhen(t, "context.approval.granted || context.approval.device || context.approval.separation > 0"))
	r := write("a.txt")
	r.Approval = &palyra.ApprovalFacts{
		Device: true, OtherPerson: true, Fresh: true, Separation: palyra.SeparationOtherUID,
		Scope: palyra.ScopeOnce,
	}
	if v := e.Judge(t.Context(), r); v.Effect != palyra.Deny {
		t.Fatalf("%+v", v)
	}
}

func TestStricterNeed(t *testing.T) {
	for _, a := range needs() {
		for _, b := range needs() {
			m := stricter(a, b)
			if m != stricter(b, a) && (a.Separation.Rank() != b.Separation.Rank()) {
				t.Fatalf("stricter(%+v, %+v) depends on the order", a, b)
			}
			for _, one := range []palyra.Need{a, b} {
				if m.Votes < one.Votes || one.OtherPerson && !m.OtherPerson || one.Device && !m.Device ||
					one.Fresh && !m.Fresh || m.Separation.Rank() < one.Separation.Rank() {
					t.Fatalf("stricter(%+v, %+v) = %+v", a, b, m)
				}
			}
		}
	}
}
