package palyra

// RunStarted opens a run. Input is the digest of what drives it.
type RunStarted struct {
	Run       RunID     `json:"run_id"`
	Session   SessionID `json:"session_id"`
	Principal Principal `json:"principal"`
	Surface   Surface   `json:"door"`
	Provider  string    `json:"provider"`
	Input     Digest    `json:"input_digest"`
	Budget    Budget    `json:"budget"`
}

// RunFed says that something was said to a run, and by whom.
type RunFed struct {
	Run        RunID     `json:"run_id"`
	By         Principal `json:"by"`
	Credential string    `json:"credential,omitempty"`
	Bytes      int64     `json:"bytes"`
	Digest     Digest    `json:"input_digest"`
}

// RunEnded ends a run.
type RunEnded struct {
	Run    RunID    `json:"run_id"`
	State  RunState `json:"state"`
	Reason Reason   `json:"reason_code,omitempty"`
	Calls  int64    `json:"calls"`
	By     string   `json:"by,omitempty"`
}

// SessionOpened opens a session.
type SessionOpened struct {
	Session   SessionID `json:"session_id"`
	Principal Principal `json:"principal"`
	Workspace string    `json:"workspace"`
	Surface   Surface   `json:"door"`
	Room      CallID    `json:"room,omitempty"` // the running call at whose own door it was opened
}

// SessionLabeled says what a session's calls have done that none did before. A call out of another session's run
// labels that session too.
type SessionLabeled struct {
	Session SessionID `json:"session_id"`
	Call    CallID    `json:"call_id"`
	Labels  []string  `json:"labels"` // those that are new
}

// SessionClosed closes one: by whom, or "idle".
type SessionClosed struct {
	Session SessionID `json:"session_id"`
	By      string    `json:"by"`
}

// WorkspaceAdded registers a workspace.
type WorkspaceAdded struct {
	Workspace Workspace `json:"workspace"`
	Signature Signature `json:"signature"`
}

// WorkspaceRemoved forgets one.
type WorkspaceRemoved struct {
	Path      string    `json:"path"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// Kind implements Event.
func (RunStarted) Kind() string       { return "run.started" }
func (RunFed) Kind() string           { return "run.fed" }
func (RunEnded) Kind() string         { return "run.ended" }
func (SessionOpened) Kind() string    { return "session.opened" }
func (SessionLabeled) Kind() string   { return "session.labeled" }
func (SessionClosed) Kind() string    { return "session.closed" }
func (WorkspaceAdded) Kind() string   { return "workspace.added" }
func (WorkspaceRemoved) Kind() string { return "workspace.removed" }
