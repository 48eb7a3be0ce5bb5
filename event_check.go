package palyra

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

// Kind implements Event.
func (CallChecked) Kind() string { return "call.checked" }
