package push

import (
	"sync"

	"palyra"
	"palyra/internal/approval"
)

// question is one that waits, as far as it is told of.
type question struct {
	risk   palyra.RiskLevel
	places []string
	number int64 // in the order in which they came; 0: it was there before
}

// questions are those that wait. They are as many as the desk lets wait.
type questions struct {
	open   map[palyra.ApprovalID]question
	last   int64
	known  map[palyra.ApprovalID]question // while a snapshot is told: what was known before it
	follow bool                           // the first snapshot is over: what was not known is new
}

// begin is before a snapshot.
func (q *questions) begin(mu sync.Locker) {
	mu.Lock()
	defer mu.Unlock()
	if q.known == nil {
		q.known, q.open = q.open, map[palyra.ApprovalID]question{}
	}
}

// heard takes a change of the desk's.
func (p *Push) heard(c approval.Change) error {
	if c.Kind == approval.ChangeLagged {
		p.questions.begin(&p.mu)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.questions.take(c) {
		p.ring()
	}
	return nil
}

// take notes a change, and reports whether there is something to tell.
func (q *questions) take(c approval.Change) (news bool) {
	a := c.Approval
	switch _, there := q.open[a.ID]; {
	case c.Kind == approval.ChangeReady:
		q.follow, q.known = true, nil
	case !a.Pending():
		delete(q.open, a.ID)
	case !there:
		one, before := q.known[a.ID]
		if !before {
			one = question{risk: a.Prompt.Risk.Level, places: a.Plan.Places()}
		}
		if news = !before && q.follow; news {
			q.last++
			one.number = q.last
		}
		q.open[a.ID] = one
	}
	return news
}

// waiting is what somebody is told who reaches some workspaces: how many questions wait, the worst risk of them, and the number
// of the newest.
func (q *questions) waiting(within []string) (count int, risk palyra.RiskLevel, newest int64) {
	worst, levels := 0, palyra.RiskLevels()
	for _, one := range q.open {
		if !reaches(within, one.places) {
			continue
		}
		rank := one.risk.Rank()
		if rank < 0 {
			rank = len(levels) - 1 // one that nobody knows
		}
		count, worst, newest = count+1, max(worst, rank), max(newest, one.number)
	}
	return count, levels[worst], newest
}

// reaches reports whether places lie in workspaces; none means all.
func reaches(within, places []string) bool {
	for _, at := range places {
		if len(within) > 0 && !palyra.Within(at, within) {
			return false
		}
	}
	return true
}
