package daemon

import (
	"context"
	"testing"

	"palyra"
)

func told(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Whoever goes by a lease hears of its end, once for all.
func TestLeasesTellTheirRuns(t *testing.T) {
	var l leases
	defer l.enter(context.Background(), "A")()
	defer l.enter(context.Background(), "B")()
	a, b, other := l.watch("LEASE", "A"), l.watch("LEASE", "B"), l.watch("OTHER", "A")
	l.ended("NOBODY")
	l.ended("LEASE")
	l.ended("LEASE")
	if !told(a) || !told(b) || told(other) {
		t.Errorf("told: %v, %v; the other: %v", told(a), told(b), told(other))
	}
}

// Nothing is kept for runs that are over, though a lease that was used up is
// never told to have ended.
func TestLeasesForgetRunsThatAreOver(t *testing.T) {
	var l leases
	for _, run := range []palyra.ID{"A", "B"} {
		leave := l.enter(context.Background(), run)
		stays := l.enter(context.Background(), run+"-stays")
		l.watch("SPENT-"+run, run)
		l.watch("SHARED", run)
		still := l.watch("SHARED", run+"-stays")
		leave()
		l.ended("SHARED")
		if !told(still) {
			t.Error("the run that goes on was not told")
		}
		stays()
		if l.watch("LATE", run) != nil {
			t.Error("a run that is over still watches")
		}
		l.pause(run)() // and has no clock
	}
	if len(l.of) > 0 || len(l.runs) > 0 {
		t.Errorf("%d leases and %d runs are left", len(l.of), len(l.runs))
	}
}
