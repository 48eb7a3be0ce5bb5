package run

import (
	"testing"

	"palyra"
	"palyra/internal/run/tapeline"
)

// World is the world of this package's tests, for those that stand outside it:
// the packages they need import this one.
type World struct{ w *world }

// NewWorld returns a world whose runs the driver drives.
func NewWorld(t *testing.T, d Driver) World { return World{newWorldWith(t, d)} }

// Runs returns its runs.
func (x World) Runs() *Runs { return x.w.runs }

// Calls returns its calls.
func (x World) Calls() *Calls { return x.w.calls }

// Request asks for a run by the provider.
func (x World) Request(provider, input string) StartRequest {
	q := x.w.request(input)
	q.Provider = provider
	return q
}

// Tape follows a run to its end.
func (x World) Tape(id palyra.RunID) []palyra.TapeEntry { return x.w.attach(id, 0) }

// Asked waits until somebody is asked.
func (x World) Asked() palyra.ApprovalID { return <-x.w.parts.asked }

// Allow answers an approval.
func (x World) Allow(approval palyra.ApprovalID) {
	calls, err := x.w.ledger.waitingFor(x.w.t.Context(), approval)
	if err != nil || len(calls) == 0 {
		x.w.t.Fatalf("nothing waits for %s: %v", approval, err)
	}
	x.w.allow(approval, calls[0].Digest)
}

// Restart ends the daemon and starts the next.
func (x World) Restart() { x.w.restart() }

// Ran says how often a call of a run was run.
func (x World) Ran(run palyra.RunID, turn, index int64) int {
	return x.w.ran.times(tapeline.CallKey(run, turn, index))
}

// Meet makes the next n calls with {"meet":true} wait for each other.
func (x World) Meet(n int) {
	x.w.parts.meet.Add(n)
}

// Kind names an entry.
func Kind(e palyra.TapeEntry) string { return kindOf(e) }

// Die starts a run in a daemon that makes n commits and no more, waits until it
// is dead or the run is over, and starts the next daemon. An empty id: the run
// never was.
func (x World) Die(n int, q StartRequest) (id palyra.RunID, finished bool) {
	w, d := x.w, &dying{left: n, dead: make(chan struct{})}
	w.close()
	w.commit = d.commit
	w.open()
	stop := w.approve(w.t.Context())
	run, err := w.runs.Start(w.t.Context(), q)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err == nil {
			_ = w.runs.Attach(w.t.Context(), run.ID, 0, func(palyra.TapeEntry) error { return nil })
		}
	}()
	select {
	case <-d.dead:
	case <-over:
		finished = err == nil
	}
	w.close()
	stop()
	<-over
	w.commit = nil
	w.open()
	w.t.Cleanup(w.approve(w.t.Context()))
	w.recover()
	return run.ID, finished
}

// tester proposes in tests, operator looks.
var (
	tester   = palyra.Reach{Principal: "agent:test"}
	operator = palyra.Reach{Principal: "user:test", Person: true}
)
