package palyra

// UpstreamPin is a tool of an upstream at one digest. Where an operator approves it, ReadOnly is their word that it only looks.
type UpstreamPin struct {
	Name     string `json:"name"`
	Digest   Digest `json:"digest"`
	ReadOnly bool   `json:"read_only,omitempty"`
	Text     Digest `json:"text_digest,omitempty"` // of what is kept to be shown of it; earlier lines have none
}

// UpstreamAdded makes an MCP server known: its signature is what permits to start it. Tools are those it had then,
// which are not approved by it.
type UpstreamAdded struct {
	Name       string             `json:"name"`
	Definition UpstreamDefinition `json:"definition"`
	Digest     Digest             `json:"definition_digest"`
	Tools      []UpstreamPin      `json:"tools"`
	By         Principal          `json:"by"`
	Signature  Signature          `json:"signature"`
}

// UpstreamRemoved takes one away with all of its tools.
type UpstreamRemoved struct {
	Name      string    `json:"name"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// UpstreamApproved says which definitions of tools may be offered from here on.
type UpstreamApproved struct {
	Name      string        `json:"name"`
	Tools     []UpstreamPin `json:"tools"`
	By        Principal     `json:"by"`
	Signature Signature     `json:"signature"`
}

// UpstreamQuarantined says that a tool is not what was approved, or new, and is not offered.
type UpstreamQuarantined struct {
	Name   string   `json:"name"`
	Tool   ToolName `json:"tool"`
	Digest Digest   `json:"digest"`                  // as it is
	Pinned Digest   `json:"pinned_digest,omitempty"` // as it was approved
	Text   Digest   `json:"text_digest,omitempty"`   // as in UpstreamPin
}

// UpstreamReached says, when the session of a server is over, what it reached, and which calls were under way then.
// That of a program is what went out of its room; that of a server behind a URL are our connections to it.
type UpstreamReached struct {
	Name    string         `json:"name"`
	Start   Digest         `json:"start_digest"` // of the plan it ran by, which plans of calls bind
	Flows   []UpstreamFlow `json:"flows"`
	Omitted int64          `json:"omitted,omitempty"` // connections that are not listed one by one, or not at all
}

// UpstreamFlow is connections of an upstream to one place. Calls are those that were under way when one of them was
// made or carried something: one means that it was for that call, several that it was for any of them, none that the
// server did it by itself.
type UpstreamFlow struct {
	EgressFlow
	Connections int64    `json:"connections"`
	Calls       []CallID `json:"call_ids"`
	MoreCalls   int64    `json:"more_calls,omitempty"` // than are listed
}

// Kind implements Event.
func (UpstreamReached) Kind() string     { return "upstream.reached" }
func (UpstreamAdded) Kind() string       { return "upstream.added" }
func (UpstreamRemoved) Kind() string     { return "upstream.removed" }
func (UpstreamApproved) Kind() string    { return "upstream.approved" }
func (UpstreamQuarantined) Kind() string { return "upstream.quarantined" }
