package palyra

// CallProposed is the first line of a call. Arguments over the cap stand as size and digest only.
type CallProposed struct {
	Call       CallID    `json:"call_id"`
	Session    SessionID `json:"session_id"`
	Run        RunID     `json:"run_id,omitempty"`
	Principal  Principal `json:"principal"`
	Surface    Surface   `json:"door"`
	Tool       ToolName  `json:"tool"`
	Workspace  string    `json:"workspace,omitempty"`
	InputBytes int64     `json:"input_bytes"`
	Input      Digest    `json:"input_digest"`
	Key        string    `json:"key,omitempty"`
	Parent     CallID    `json:"parent,omitempty"` // the running call that it came out of
	Origin     Principal `json:"origin,omitempty"` // who proposed the outermost of those; empty: the principal
}

// CallJudged is policy's answer.
type CallJudged struct {
	Call     CallID     `json:"call_id"`
	Plan     Digest     `json:"plan_digest"`
	Effect   Effect     `json:"effect"`
	Policies []string   `json:"policies,omitempty"`
	Pairs    []Pair     `json:"pairs,omitempty"`
	Errors   int        `json:"errors,omitempty"`
	Risk     RiskLevel  `json:"risk,omitempty"`
	Bundle   Digest     `json:"bundle_digest"`
	Snapshot Digest     `json:"snapshot_digest"`
	Again    bool       `json:"again,omitempty"` // judged again after a wait
	Approval ApprovalID `json:"approval_id,omitempty"`
	Labels   []string   `json:"labels,omitempty"` // of the session, with what was under way in it
	Roles    []Role     `json:"roles,omitempty"`  // of the principal, as the access registry knew them
	Owner    []Role     `json:"owner_roles,omitempty"`
	Device   string     `json:"device_id,omitempty"` // that the principal is, or speaks for
	Kept     Kept       `json:"kept,omitzero"`
}

// CallRefused ends a call that did not run.
type CallRefused struct {
	Call   CallID `json:"call_id"`
	Layer  Layer  `json:"layer"`
	Code   Code   `json:"code"`
	Reason Reason `json:"reason_code"`
	Plan   Digest `json:"plan_digest,omitempty"`
	Body   Digest `json:"outcome_sha256,omitempty"` // of the outcome's body; older lines do not have it
	Kept   Kept   `json:"kept,omitzero"`
}

// CallGranted is durable before anything runs. Lease names the lease it uses; recording it takes one use.
type CallGranted struct {
	Call     CallID     `json:"call_id"`
	Grant    GrantID    `json:"grant_id"`
	Plan     Digest     `json:"plan_digest"`
	Approval ApprovalID `json:"approval_id,omitempty"`
	Lease    LeaseID    `json:"lease_id,omitempty"`
	Tier     Tier       `json:"tier"`
	WallMS   int64      `json:"wall_ms,omitempty"` // that it may run; lines from before this was kept do not say
	Kept     Kept       `json:"kept,omitzero"`
}

// CallFed says that a running call was given input, by whom, and how much since the line before: pieces, bytes,
// signals. Digest is of all bytes that it was given so far. It stands before the line of the call's end.
type CallFed struct {
	Call       CallID    `json:"call_id"`
	By         Principal `json:"by"`
	Credential string    `json:"credential,omitempty"`
	Room       CallID    `json:"room,omitempty"`
	Count      int64     `json:"count"`
	Bytes      int64     `json:"bytes"`
	Signals    []string  `json:"signals,omitempty"`
	Ended      bool      `json:"ended,omitempty"` // that was all
	Digest     Digest    `json:"input_digest"`
}

// CallSettling says what a staged run changed, before any of it is kept, and how that was judged. Again: with an
// answer, under whose lease it is kept.
type CallSettling struct {
	Call     CallID     `json:"call_id"`
	Plan     Digest     `json:"plan_digest"` // with the effects
	Changes  Effects    `json:"changes"`
	Effect   Effect     `json:"effect"`
	Policies []string   `json:"policies,omitempty"`
	Errors   int        `json:"errors,omitempty"`
	Bundle   Digest     `json:"bundle,omitempty"`
	Snapshot Digest     `json:"snapshot,omitempty"`
	Again    bool       `json:"again,omitempty"`
	Approval ApprovalID `json:"approval_id,omitempty"`
	Lease    LeaseID    `json:"grant_id,omitempty"`
	Kept     Kept       `json:"kept,omitzero"`
}

// CallFinished carries the attestation's digest; without this line the output is withheld.
type CallFinished struct {
	Call        CallID      `json:"call_id"`
	Outcome     OutcomeKind `json:"outcome"`
	ExitCode    int         `json:"exit_code"`
	Attestation Digest      `json:"attestation_digest"`
	AttestedAs  ID          `json:"attestation_id"`
	Body        Digest      `json:"outcome_sha256"`
	Labels      []string    `json:"labels,omitempty"`  // what it did; its session has them from here on
	Reduced     []string    `json:"reduced,omitempty"` // what the attestation lacks because it could not be signed
	Changes     *Effects    `json:"changes,omitempty"` // what a staged run changed, in short
	Kept        Kept        `json:"kept,omitzero"`

	Signed Attestation `json:"-"`
}

// CallCancelled ends a call the caller gave up.
type CallCancelled struct {
	Call  CallID `json:"call_id"`
	State State  `json:"state"` // where it stood
	By    string `json:"by"`
	Body  Digest `json:"outcome_sha256,omitempty"` // as in CallRefused
	Kept  Kept   `json:"kept,omitzero"`
}

// CallUnknown ends a call whose daemon died after the grant: it may or may not have run, and is never run again by itself.
type CallUnknown struct {
	Call   CallID   `json:"call_id"`
	State  State    `json:"state"`
	Labels []string `json:"labels,omitempty"`         // what it may have done
	Body   Digest   `json:"outcome_sha256,omitempty"` // as in CallRefused
	Kept   Kept     `json:"kept,omitzero"`
}

// CallChecked ends a call that the caller only asked about: it may run it by its own tools, outside any sandbox.
// Nothing ran here, so nothing is attested. Lease names the lease that answered; recording it takes one use.
type CallChecked struct {
	Call     CallID     `json:"call_id"`
	Plan     Digest     `json:"plan_digest"`
	Effect   Effect     `json:"effect"` // what policy said before anybody was asked
	Policies []string   `json:"policies,omitempty"`
	Approval ApprovalID `json:"approval_id,omitempty"`
	Lease    LeaseID    `json:"lease_id,omitempty"`
	Tier     Tier       `json:"tier"`
	Body     Digest     `json:"outcome_sha256,omitempty"` // as in CallRefused
	Kept     Kept       `json:"kept,omitzero"`
}

// CallObserved ends a call that was judged and not held, because Palyra only observes: the caller runs it by its own
// tools whatever the judgement is. It says what would have become of it; nothing is attested.
type CallObserved struct {
	Call   CallID  `json:"call_id"`
	Plan   Digest  `json:"plan_digest,omitempty"`
	Effect Effect  `json:"effect"` // what policy said; deny where a layer before policy refused it
	Layer  Layer   `json:"layer,omitempty"`
	Reason Reason  `json:"reason_code,omitempty"` // for which it would have been refused
	Lease  LeaseID `json:"lease_id,omitempty"`    // that would have answered the question; it is not used
	Body   Digest  `json:"outcome_sha256,omitempty"`
	Kept   Kept    `json:"kept,omitzero"`
}

// Kind implements Event.
func (CallProposed) Kind() string  { return "call.proposed" }
func (CallJudged) Kind() string    { return "call.judged" }
func (CallRefused) Kind() string   { return "call.refused" }
func (CallGranted) Kind() string   { return "call.granted" }
func (CallFed) Kind() string       { return "call.fed" }
func (CallSettling) Kind() string  { return "call.settling" }
func (CallFinished) Kind() string  { return "call.finished" }
func (CallCancelled) Kind() string { return "call.cancelled" }
func (CallUnknown) Kind() string   { return "call.unknown" }
func (CallChecked) Kind() string   { return "call.checked" }
func (CallObserved) Kind() string  { return "call.observed" }
