package palyra

import (
	"encoding/json"
	"time"
)

// Transport is how an upstream MCP server is spoken to.
type Transport string

// The transports.
const (
	TransportStdio Transport = "stdio" // a program, in tier C
	TransportHTTP  Transport = "http"  // a URL, through the egress guard
)

// UpstreamState is how an upstream server is.
type UpstreamState string

// The states of upstream servers.
const (
	UpstreamIdle    UpstreamState = "idle"    // not started: the next call starts it
	UpstreamReady   UpstreamState = "ready"   // answers
	UpstreamFailing UpstreamState = "failing" // ended or does not answer; it is tried again later
)

// Upstream is an MCP server whose tools are offered behind the gate, as an operator added it. Definition is all of it
// that decides what runs.
type Upstream struct {
	Name string `json:"name"` // [a-z0-9-]{1,32}
	UpstreamDefinition
	Digest  Digest         `json:"definition_digest"`
	State   UpstreamState  `json:"state"`
	Fault   string         `json:"fault,omitempty"` // why it is failing
	Server  string         `json:"server,omitempty"`
	Tools   []UpstreamTool `json:"tools"`
	AddedBy Principal      `json:"added_by"`
	AddedAt time.Time      `json:"added_at"`
}

// UpstreamReadOnly ends a workspace that a server may only read.
const UpstreamReadOnly = ":ro"

// UpstreamDefinition is what decides what an upstream is.
type UpstreamDefinition struct {
	Transport Transport         `json:"transport"`
	Command   []string          `json:"command,omitempty"`  // of stdio: program and arguments
	URL       string            `json:"url,omitempty"`      // of http
	Env       map[string]string `json:"env,omitempty"`      // plain values
	Bindings  []string          `json:"bindings,omitempty"` // secrets that it uses
	Workspace string            `json:"workspace,omitempty"`
	Profile   string            `json:"profile,omitempty"`
	Egress    []string          `json:"egress,omitempty"`     // host:port that a stdio server may reach
	TimeoutMS int64             `json:"timeout_ms,omitempty"` // of one call
}

// UpstreamToolState is whether a tool of an upstream can be called.
type UpstreamToolState string

// The states of upstream tools.
const (
	UpstreamToolActive      UpstreamToolState = "active"      // as an operator approved it
	UpstreamToolQuarantined UpstreamToolState = "quarantined" // new or changed since: not offered
	UpstreamToolRefused     UpstreamToolState = "refused"     // it can never be offered: a bad name or schema, or one that is taken
	UpstreamToolGone        UpstreamToolState = "gone"        // approved once, and no longer there
)

// UpstreamTool is one tool of an upstream, as it is now and as it was approved.
type UpstreamTool struct {
	Name        string            `json:"name"` // the upstream's own
	Tool        ToolName          `json:"tool"` // mcp.NAME.name, in the catalog
	State       UpstreamToolState `json:"state"`
	Why         string            `json:"why,omitempty"` // it is not active
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description"`
	InputSchema json.RawMessage   `json:"input_schema"`
	Digest      Digest            `json:"digest"`                  // of the definition as it is
	Pinned      Digest            `json:"pinned_digest,omitempty"` // of the one that was approved
	Claims      []string          `json:"claims,omitempty"`        // what the server says of it: "read-only", …; nobody has to believe it
	ReadOnly    bool              `json:"read_only,omitempty"`     // an operator says so, of the one that was approved
}
