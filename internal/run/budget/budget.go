// Package budget counts the calls of runs, and of calls that make others for their own work.
//
// Words: a place is where a call of a run stands, its turn and its index in that. Work is a call that a running one makes for
// itself, such as a skill's; it counts as one more of the run.
//
// Promises: a call at the same place has the same number in every drive, but for work that came before it; no two of a run's
// works have the same number, however many of them are made at once. What is over a budget the catalog says.
//
// Its words are those of docs/words.md.
package budget

import (
	"sync"

	"palyra"
)

// Lower returns what a run gets: what it asked for, at most the configured.
func Lower(ask, most palyra.Budget) palyra.Budget {
	pick := func(a, m int64) int64 {
		if a == 0 {
			return m
		}
		return min(a, m)
	}
	return palyra.Budget{
		Calls: pick(ask.Calls, most.Calls), WallMS: pick(ask.WallMS, most.WallMS),
		OutputBytes: pick(ask.OutputBytes, most.OutputBytes), Parallel: pick(ask.Parallel, most.Parallel),
	}
}

// Count counts the calls of one run.
type Count struct {
	mu                 sync.Mutex
	turn, before, here int64 // the turn, calls before it, and in it
	works              int64
}

// Place is how many calls came before the one at a place.
func (c *Count) Place(turn, index int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turn > c.turn {
		c.turn, c.before, c.here = turn, c.before+c.here, 0
	}
	c.here = max(c.here, index)
	return c.before + index - 1 + c.works
}

// Work is how many calls came before one more work.
func (c *Count) Work() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works++
	return c.before + c.here + c.works - 1
}

// Book has the counts of what is under way. Its zero value is ready.
type Book struct {
	mu     sync.Mutex
	runs   map[palyra.RunID]*Count
	alones map[palyra.CallID]*Count // calls of no run
}

// Begin begins to count a run that made so many works before.
func (b *Book) Begin(run palyra.RunID, works int64) *Count {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs == nil {
		b.runs = map[palyra.RunID]*Count{}
	}
	c := &Count{works: works}
	b.runs[run] = c
	return c
}

// End ends the count of a run.
func (b *Book) End(run palyra.RunID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.runs, run)
}

// Work is how many calls came before one more work of a running call: in its run, or since the outermost call began.
func (b *Book) Work(of *palyra.Call) int64 {
	outermost := of.ID
	if len(of.Proposal.Line) > 0 {
		outermost = of.Proposal.Line[0]
	}
	b.mu.Lock()
	c := b.runs[of.Proposal.Run]
	if c == nil {
		c = b.alones[outermost]
	}
	if c == nil {
		if b.alones == nil {
			b.alones = map[palyra.CallID]*Count{}
		}
		c = &Count{here: 1} // the call itself
		b.alones[outermost] = c
	}
	b.mu.Unlock()
	return c.Work()
}

// Over ends the count of a call of no run.
func (b *Book) Over(call palyra.CallID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.alones, call)
}
