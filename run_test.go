package palyra

import "testing"

// Every pair of states: a run only moves on, and ends once.
func TestRunStates(t *testing.T) {
	may := map[[2]RunState]bool{
		{RunPending, RunIsAccepted}: true, {RunPending, RunFailed}: true, {RunPending, RunCancelled}: true,
		{RunIsAccepted, RunInProgress}: true, {RunIsAccepted, RunFailed}: true, {RunIsAccepted, RunCancelled}: true,
		{RunInProgress, RunDone}: true, {RunInProgress, RunFailed}: true, {RunInProgress, RunCancelled}: true,
	}
	for _, from := range append(RunStates(), "", "other") {
		for _, to := range append(RunStates(), "", "other") {
			if got := from.MayBecome(to); got != may[[2]RunState{from, to}] {
				t.Errorf("%q may become %q: %v", from, to, got)
			}
		}
		if ended := from == RunDone || from == RunFailed || from == RunCancelled; from.Ended() != ended {
			t.Errorf("%q ended: %v", from, from.Ended())
		}
	}
}
