package palyra

import (
	"slices"
	"time"
)

// Effect is policy's answer. The zero Effect denies.
type Effect int

// The effects.
const (
	Deny Effect = iota
	Ask
	Allow
)

// String returns deny, ask or allow.
func (e Effect) String() string {
	switch e {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// MarshalText implements encoding.TextMarshaler.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Anything unknown denies.
func (e *Effect) UnmarshalText(b []byte) error {
	switch string(b) {
	case "allow":
		*e = Allow
	case "ask":
		*e = Ask
	default:
		*e = Deny
	}
	return nil
}

// Verdict is what policy says about a plan, with the rules that decided.
type Verdict struct {
	Effect   Effect       `json:"effect"`
	Need     Need         `json:"need,omitzero"` // of an ask
	Risk     Risk         `json:"risk,omitzero"`
	Policies []PolicyHit  `json:"policies,omitempty"` // those that decided
	Errors   []string     `json:"errors,omitempty"`   // any evaluation error makes the verdict deny
	Pairs    []PairResult `json:"pairs,omitempty"`    // one answer per (action, resource)
	Bundle   Digest       `json:"bundle,omitempty"`
	Snapshot Digest       `json:"snapshot,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Remedy   string       `json:"remedy,omitempty"`

	Looks    bool     `json:"-"` // of what a run changed: the call only looks, so none of it is anybody's work
	Standing Standing `json:"-"` // that was judged with; the journal keeps it
}

// Standing is what the access registry knows of a caller.
type Standing struct {
	Roles  []Role // of the principal
	Owner  []Role // of its owner
	Device string // the paired device that it is, or speaks for
}

// PolicyHit is one policy that took part in a verdict.
type PolicyHit struct {
	ID     string `json:"id"`
	Effect string `json:"effect"` // permit, forbid
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Pair is an action on a resource that a plan implies.
type Pair struct {
	Action   string `json:"action"`   // tool.execute
	Resource string `json:"resource"` // Tool::"palyra.echo"
}

// PairResult is the answer for one pair.
type PairResult struct {
	Pair
	Effect   Effect   `json:"effect"`
	Policies []string `json:"policies,omitempty"`
}

// Need is what an approval must have for the call to be allowed.
type Need struct {
	Votes       int        `json:"votes"`                  // distinct people
	OtherPerson bool       `json:"other_person,omitempty"` // not the requester's owner
	Device      bool       `json:"device,omitempty"`       // signed by a paired device
	Separation  Separation `json:"separation,omitempty"`   // at least this level
	Fresh       bool       `json:"fresh,omitempty"`        // a once-only answer; no lease covers it
}

// RiskLevel orders risks.
type RiskLevel string

// The risk levels.
const (
	RiskLow      RiskLevel = "low"
	RiskMedium   RiskLevel = "medium"
	RiskHigh     RiskLevel = "high"
	RiskCritical RiskLevel = "critical"
)

// RiskLevels are the levels, lowest first; the position is the rank that policies compare.
func RiskLevels() []RiskLevel { return []RiskLevel{RiskLow, RiskMedium, RiskHigh, RiskCritical} }

// Rank orders levels; an unknown one is -1.
func (l RiskLevel) Rank() int { return slices.Index(RiskLevels(), l) }

// Risk is a level with the named factors behind it.
type Risk struct {
	Level   RiskLevel `json:"level"`
	Factors []string  `json:"factors,omitempty"`
}

// Request is what policy judges: a call, its plan, and, after a question, the approval as it really was.
type Request struct {
	Principal Principal
	Owner     Principal
	Call      CallID
	Session   SessionID
	Run       RunID
	Parent    CallID // the running call that this one came out of
	Surface   Surface
	Tool      Tool
	Plan      Plan
	Labels    []string
	CallsUsed int64
	CallsMax  int64          // of the run, where it is less than the configured
	At        time.Time      // when it is judged; zero: now
	Standing  *Standing      // nil: as the access registry has it now
	Approval  *ApprovalFacts // nil: nobody was asked
	Effects   *EffectFacts   // not nil: what is judged is whether the changes of the run are kept, not the call
}

// ApprovalFacts is what an approval was, as policy sees it.
type ApprovalFacts struct {
	Votes       int
	OtherPerson bool
	Device      bool
	Separation  Separation
	Scope       Scope
	Fresh       bool // given for this very call, not by a lease
}
