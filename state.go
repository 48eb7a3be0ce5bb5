package palyra

import "slices"

// State is where a call stands.
type State string

// The states of a call.
const (
	Proposed  State = "proposed"
	Judged    State = "judged"
	Pending   State = "pending"
	Granted   State = "granted"
	Running   State = "running"
	Settling  State = "settling" // it ran, and whether its changes are kept is being decided
	Refused   State = "refused"
	Finished  State = "finished"
	Cancelled State = "cancelled"
	Unknown   State = "unknown"
	Checked   State = "checked"  // allowed, and not run here: the caller only asked
	Observed  State = "observed" // judged, and not held: the caller runs it whatever the judgement is
)

// States lists every state once, in the order of a call's life.
func States() []State {
	return []State{Proposed, Judged, Pending, Granted, Running, Settling, Refused, Finished, Cancelled, Unknown, Checked, Observed}
}

// next is the whole state machine. A state with no row is an end.
var next = map[State][]State{
	Proposed: {Judged, Refused, Cancelled, Observed},
	Judged:   {Pending, Granted, Refused, Cancelled, Checked, Observed},
	Pending:  {Granted, Refused, Cancelled, Checked},
	Granted:  {Running, Refused, Cancelled, Unknown}, // Refused: the plan changed before launch
	Running:  {Finished, Cancelled, Unknown, Settling},
	Settling: {Finished, Unknown},
}

// MayBecome reports whether a call may go from s to t.
func (s State) MayBecome(t State) bool {
	return slices.Contains(next[s], t)
}

// Ended reports whether nothing follows s.
func (s State) Ended() bool { return len(next[s]) == 0 }

// AfterCrash is what a state becomes when the daemon that held the call died: a question stays a question, also one about changes; what may
// have run is unknown and never re-run; what was never granted is refused.
func (s State) AfterCrash() State {
	switch s {
	case Proposed, Judged:
		return Refused
	case Granted, Running:
		return Unknown
	}
	return s
}
