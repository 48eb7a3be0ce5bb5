package wire

import (
	"time"

	"palyra"
)

// Flip is a change after which policy's answer, or another layer's, is another.
type Flip struct {
	// what has to change: policy, answer, arguments, limit, host, tier, config, workspace, machine
	Kind     string        `json:"kind"`
	Text     string        `json:"text"`             // for people
	Change   string        `json:"change,omitempty"` // to be used as it is: a policy, a command line, a setting
	Becomes  palyra.Effect `json:"becomes"`          // allow or ask
	Verified bool          `json:"verified"`         // the call was judged again with it
}

// ReplayQuery is what to judge again, and with what.
type ReplayQuery struct {
	Files map[string]string // the candidate; nil: the bundle in force
	Since time.Time
	Until time.Time
}

// ReplayReport is what a candidate would have answered otherwise. Lists name the
// first calls of their kind; counts are whole.
type ReplayReport struct {
	Bundle       palyra.Digest      `json:"bundle_digest"`
	Snapshot     palyra.Digest      `json:"snapshot_digest"`
	Records      int64              `json:"records"`
	Same         int64              `json:"same"`
	Failing      int64              `json:"failing"`
	Transitions  []ReplayTransition `json:"transitions"`
	Short        ReplayTransition   `json:"short"`
	Prompts      ReplayPrompts      `json:"prompts"`
	Unreplayable int64              `json:"unreplayable"`
	Gaps         []ReplayGap        `json:"gaps"`
	Problems     []PolicyProblem    `json:"problems,omitempty"` // of the candidate; nothing was judged then
}

// ReplayTransition is every call whose answer changes from one to another.
type ReplayTransition struct {
	From  palyra.Effect  `json:"from"`
	To    palyra.Effect  `json:"to"`
	Count int64          `json:"count"`
	Calls []ReplayChange `json:"calls"`
}

// ReplayChange is one call that would be judged otherwise, and why.
type ReplayChange struct {
	Call      palyra.CallID    `json:"call_id"`
	Principal palyra.Principal `json:"principal"`
	Tool      palyra.ToolName  `json:"tool"`
	Command   string           `json:"command,omitempty"`
	Need      palyra.Need      `json:"need,omitzero"`
	Policies  []string         `json:"policies,omitempty"`
	Before    []string         `json:"before,omitempty"`
	Reason    string           `json:"reason,omitempty"`
	Errors    []string         `json:"errors,omitempty"`
}

// ReplayPrompts is how often people were asked, and would be.
type ReplayPrompts struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	Saved  int64 `json:"saved"`
	Added  int64 `json:"added"`
}

// ReplayGap is a reason why calls cannot be judged again, with the first of them.
type ReplayGap struct {
	Reason string          `json:"reason"`
	Count  int64           `json:"count"`
	Calls  []palyra.CallID `json:"calls"`
}

// PolicySuggestion is a candidate and what it would have saved.
type PolicySuggestion struct {
	Files  map[string]string `json:"files,omitempty"` // the bundle in force with one file more
	File   string            `json:"file,omitempty"`  // its name
	Rules  []SuggestedRule   `json:"rules"`
	Report ReplayReport      `json:"report"`
}

// SuggestedRule is one rule of a suggestion.
type SuggestedRule struct {
	ID     string          `json:"id"`
	Text   string          `json:"text"`
	Reason string          `json:"reason"`
	Saves  int64           `json:"saves"`
	Calls  []palyra.CallID `json:"calls"`
}
