package palyra

import "slices"

// Event is one typed journal line. Every kind stands in Catalogue; there is no free-form one. Fields tagged json:"-"
// travel with the event to the tables it changes and are not journaled.
type Event interface {
	// Kind is the event's stable name: "call.granted".
	Kind() string
}

// Entry is an event as the journal keeps it.
type Entry struct {
	Seq  int64          `json:"seq"`
	Time string         `json:"time"`
	Kind string         `json:"kind"`
	Call CallID         `json:"call_id,omitempty"`
	Body map[string]any `json:"body"`
}

// Catalogue returns a zero value of every event, in the order of the docs.
func Catalogue() []Event {
	return slices.Concat(
		[]Event{StateBegun{}, DaemonStarted{}, DaemonStopped{}, KeyCreated{}, KeyRotated{}, PolicyActivated{}, ObservationChanged{}},
		[]Event{CallProposed{}, CallJudged{}, CallRefused{}, CallGranted{}, CallFed{}, CallSettling{}, CallFinished{}},
		[]Event{CallCancelled{}, CallUnknown{}, CallChecked{}, CallObserved{}, CallReverted{}},
		[]Event{ApprovalRequested{}, ApprovalJoined{}, ApprovalVoted{}, ApprovalDecided{}, ApprovalWithdrawn{}},
		[]Event{GrantCreated{}, GrantEnded{}},
		[]Event{RunStarted{}, RunFed{}, RunEnded{}, SessionOpened{}, SessionLabeled{}, SessionClosed{}},
		[]Event{WorkspaceAdded{}, WorkspaceRemoved{}},
		[]Event{AgentAdded{}, AgentRemoved{}, OperatorAdded{}, OperatorRemoved{}},
		[]Event{AlertRaised{}, DoorFlood{}, ApprovalsExported{}, JournalExported{}, PostureChecked{}},
		[]Event{PairingOpened{}, PairingFailed{}, DevicePaired{}, DeviceRenewed{}, DeviceRevoked{}},
		[]Event{UserAdded{}, UserChanged{}, UserRemoved{}, TokenAdded{}, TokenRevoked{}, ConsoleOpened{}, NoticesChanged{}},
		[]Event{UpstreamAdded{}, UpstreamRemoved{}, UpstreamApproved{}, UpstreamQuarantined{}, UpstreamReached{}},
		[]Event{VaultChanged{}, SecretUsed{}, SignatureMade{}, SkillChanged{}, PublisherChanged{}},
	)
}
