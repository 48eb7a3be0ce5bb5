package seatbelt

// ident is a process for as long as it exists: numbers are given again.
type ident struct {
	pid   int
	start int64 // in microseconds
}

// proc is a row of the system's table of processes.
type proc struct {
	ident
	parent, group int
	zombie        bool
}

// tree follows the processes that come of one.
type tree struct {
	leader ident
	seen   map[ident]bool
}

func newTree(leader ident) *tree { return &tree{leader: leader, seen: map[ident]bool{leader: true}} }

// update takes a new table in and returns those of the tree that live. A process
// belongs to it that did before, whose parent does, or that is in the leader's
// group, as long as the leader is in the table, dead or alive: after that the
// number of the group may be somebody else's. One that is older than the leader
// never belongs.
func (t *tree) update(table []proc) []proc {
	now := make(map[int]proc, len(table))
	for _, p := range table {
		now[p.pid] = p
	}
	for _, p := range table {
		t.admit(p, now)
	}
	var alive []proc
	for _, p := range table {
		if t.seen[p.ident] && !p.zombie {
			alive = append(alive, p)
		}
	}
	return alive
}

// admit follows a process up to one that belongs, and lets the chain in.
func (t *tree) admit(p proc, now map[int]proc) {
	var chain []ident
	here := now[t.leader.pid].ident == t.leader
	for range now { // a table has no longer chain than rows
		if t.seen[p.ident] || (here && p.group == t.leader.pid && p.start >= t.leader.start) {
			t.seen[p.ident] = true
			for _, c := range chain {
				t.seen[c] = true
			}
			return
		}
		up, ok := now[p.parent]
		if !ok || p.start < t.leader.start || up.start > p.start {
			return
		}
		chain, p = append(chain, p.ident), up
	}
}
