package seatbelt

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTreeFollows(t *testing.T) {
	tr := newTree(ident{100, 1000})
	row := func(pid int, start int64, parent, group int) proc {
		return proc{ident: ident{pid, start}, parent: parent, group: group}
	}
	leader, child := row(100, 1000, 1, 100), row(101, 1001, 100, 100)
	daemonised, other := row(102, 1002, 101, 102), row(50, 10, 1, 50)
	pids := func(p []proc) (out []int) {
		for _, q := range p {
			out = append(out, q.pid)
		}
		return out
	}
	step := func(want []int, rows ...proc) {
		t.Helper()
		if got := pids(tr.update(rows)); !slices.Equal(got, want) {
			t.Errorf("alive are %v, want %v", got, want)
		}
	}
	step([]int{100, 101, 102}, other, leader, child, daemonised)
	daemonised.parent = 1 // its parent ended: it stays ours
	step([]int{100, 102}, other, leader, daemonised)
	step([]int{100, 102, 103}, leader, daemonised, row(103, 1010, 102, 103))
	step([]int{100}, leader, row(102, 2000, 1, 102)) // the number again, for somebody else
	orphan := row(104, 1005, 1, 100)                 // missed before, but still in the group
	step([]int{100, 104}, leader, orphan)
	leader.zombie = true
	step([]int{104}, leader, orphan)
	again := newTree(ident{100, 1000})
	if got := again.update([]proc{row(100, 3000, 1, 100), row(105, 3001, 100, 100)}); len(got) > 0 {
		t.Errorf("the leader's number came again, and %v was taken for its", pids(got))
	}
	if got := again.update([]proc{row(105, 3001, 1, 100)}); len(got) > 0 {
		t.Errorf("a group without its leader was taken: %v", pids(got))
	}
}

// A table that makes no sense, with loops in it, ends nothing that is older than
// the leader, and comes to an end itself.
func TestTreeNeverTakesOthers(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		lead := ident{10, 50}
		tr := newTree(lead)
		rows := []proc{{ident: lead, parent: 1, group: 10}}
		for pid := range rapid.IntRange(1, 40).Draw(r, "n") {
			if pid != lead.pid {
				rows = append(rows, proc{
					ident:  ident{pid, rapid.Int64Range(0, 100).Draw(r, "start")},
					parent: rapid.IntRange(0, 40).Draw(r, "parent"), group: rapid.IntRange(0, 40).Draw(r, "group"), zombie: rapid.Bool().Draw(r, "zombie"),
				})
			}
		}
		taken := tr.update(rows)
		for _, p := range taken {
			if p.start < lead.start || p.zombie {
				t.Errorf("%+v was taken", p)
			}
		}
		for _, p := range taken { // and for each there is a reason
			parent := slices.ContainsFunc(rows, func(q proc) bool { return tr.seen[q.ident] && q.pid == p.parent && q.start <= p.start })
			if p.ident != lead && p.group != lead.pid && !parent {
				t.Errorf("%+v was taken for nothing", p)
			}
		}
		for _, p := range rows { // children of what is ours, and the group, are ours
			mine := p.group == lead.pid || slices.ContainsFunc(taken, func(q proc) bool { return q.pid == p.parent && q.start <= p.start })
			if mine && !p.zombie && p.start >= lead.start && !slices.Contains(taken, p) {
				t.Errorf("%+v was missed", p)
			}
		}
	})
}
