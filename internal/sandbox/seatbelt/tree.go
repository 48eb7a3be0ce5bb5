package seatbelt

// ident identifies a process even if its pid is reused.
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

// tree follows the descendants of one process.
type tree struct {
	leader ident
	seen   map[ident]bool
}

func newTree(leader ident) *tree { return &tree{leader: leader, seen: map[ident]bool{leader: true}} }

// update takes a new table and returns the living processes of the tree. A process belongs to it if it did before,
// if its parent does, or if it is in the leader's group while the leader is in the table, dead or alive: after that
// the group's number may be reused. A process older than the leader never belongs.
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

// admit follows a process up to one that belongs, and adds the chain.
func (t *tree) admit(p proc, now map[int]proc) {
	var chain []ident
	here := now[t.leader.pid].ident == t.leader
	for range now { // no chain is longer than the table
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
