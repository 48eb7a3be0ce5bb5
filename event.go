package palyra

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
	return []Event{
		StateBegun{}, DaemonStarted{}, DaemonStopped{}, KeyCreated{}, KeyRotated{}, PolicyActivated{},
		CallProposed{}, CallJudged{}, CallRefused{}, CallGranted{}, CallFed{}, CallSettling{}, CallFinished{},
		CallCancelled{}, CallUnknown{}, CallChecked{}, CallReverted{},
		ApprovalRequested{}, ApprovalJoined{}, ApprovalVoted{}, ApprovalDecided{}, ApprovalWithdrawn{},
		GrantCreated{}, GrantEnded{},
		RunStarted{}, RunFed{}, RunEnded{},
		SessionOpened{}, SessionLabeled{}, SessionClosed{},
		WorkspaceAdded{}, WorkspaceRemoved{},
		AgentAdded{}, AgentRemoved{},
		OperatorAdded{}, OperatorRemoved{},
		AlertRaised{},
		DoorFlood{},
		ApprovalsExported{},
		JournalExported{},
		PostureChecked{},
		PairingOpened{}, PairingFailed{},
		DevicePaired{}, DeviceRenewed{}, DeviceRevoked{},
		UserAdded{}, UserChanged{}, UserRemoved{},
		TokenAdded{}, TokenRevoked{},
		ConsoleOpened{},
		UpstreamAdded{}, UpstreamRemoved{}, UpstreamApproved{}, UpstreamQuarantined{}, UpstreamReached{},
		VaultChanged{}, SignatureMade{},
	}
}
