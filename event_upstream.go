package palyra

// UpstreamPin is a tool of an upstream at one digest.
type UpstreamPin struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// UpstreamAdded makes an MCP server known: its signature is what permits to start
// it. Tools are those it had then, which are not approved by it.
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

// UpstreamQuarantined says that a tool is not what was approved, or new, and is
// not offered.
type UpstreamQuarantined struct {
	Name   string `json:"name"`
	Tool   string `json:"tool"`
	Digest Digest `json:"digest"`                  // as it is
	Pinned Digest `json:"pinned_digest,omitempty"` // as it was approved
}

// Kind implements Event.
func (UpstreamAdded) Kind() string { return "upstream.added" }

// Kind implements Event.
func (UpstreamRemoved) Kind() string { return "upstream.removed" }

// Kind implements Event.
func (UpstreamApproved) Kind() string { return "upstream.approved" }

// Kind implements Event.
func (UpstreamQuarantined) Kind() string { return "upstream.quarantined" }
