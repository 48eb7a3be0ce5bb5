package budget

import (
	"slices"
	"sync"
	"testing"

	"palyra"
)

// Calls are numbered by their place, not by when they are made: a run that is driven again gives each its old number.
func TestPlacesDoNotDependOnOrder(t *testing.T) {
	var a, b Count
	if a.Place(1, 1) != 0 || a.Place(1, 2) != 1 || a.Place(2, 1) != 2 || a.Place(2, 3) != 4 || a.Place(5, 1) != 5 {
		t.Error("in order")
	}
	if b.Place(1, 2) != 1 || b.Place(1, 1) != 0 || b.Place(2, 3) != 4 || b.Place(2, 1) != 2 || b.Place(5, 1) != 5 {
		t.Error("out of order")
	}
}

// Works count among the calls of their run, each once, also those of an earlier drive and those made at once.
func TestWorksCount(t *testing.T) {
	var b Book
	c := b.Begin("R", 3)
	if n := c.Place(1, 1); n != 3 {
		t.Errorf("the first call has %d before it", n)
	}
	parent := &palyra.Call{ID: "C", Proposal: palyra.Proposal{Proposer: palyra.Proposer{Run: "R"}}}
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			n := b.Work(parent)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, n)
		})
	}
	wg.Wait()
	slices.Sort(all)
	for i, n := range all {
		if n != int64(4+i) {
			t.Fatalf("numbers are %v", all)
		}
	}
	if n := c.Place(2, 1); n != 54 {
		t.Errorf("the second call has %d before it", n)
	}
	b.End("R")
	b.End("R")
}

// A call of no run has a count of its own, with all that comes out of it, and leaves nothing behind.
func TestWorksOfACallAlone(t *testing.T) {
	var b Book
	b.Over("nobody")
	one, other := &palyra.Call{ID: "C"}, &palyra.Call{ID: "D"}
	inner := &palyra.Call{ID: "E", Proposal: palyra.Proposal{Proposer: palyra.Proposer{Line: []palyra.CallID{"C"}}}}
	if b.Work(one) != 1 || b.Work(inner) != 2 || b.Work(one) != 3 || b.Work(other) != 1 {
		t.Error("works of calls alone are not counted")
	}
	b.Over("C")
	b.Over("D")
	if len(b.alones) != 0 {
		t.Errorf("%d are left", len(b.alones))
	}
}

func TestLower(t *testing.T) {
	most := palyra.Budget{Calls: 9, WallMS: 9, OutputBytes: 9, Parallel: 9}
	if got := Lower(palyra.Budget{Calls: 1, WallMS: 10}, most); got != (palyra.Budget{Calls: 1, WallMS: 9, OutputBytes: 9, Parallel: 9}) {
		t.Errorf("%+v", got)
	}
}
