package palyra

import (
	"encoding/json"
	"slices"
)

// Capability names something a tool may touch.
type Capability string

// The capabilities.
const (
	ProcessExec     Capability = "process_exec"
	Network         Capability = "network"
	SecretsRead     Capability = "secrets_read"
	FilesystemWrite Capability = "filesystem_write"
	FilesystemRead  Capability = "filesystem_read"
	ArtifactsRead   Capability = "artifacts_read"
	ChannelSend     Capability = "channel_send"
	Browser         Capability = "browser"
	NodeInvoke      Capability = "node"
	DevicePair      Capability = "device_pair"
)

// Sensitive reports whether c alone makes a call worth a question.
func (c Capability) Sensitive() bool {
	switch c {
	case FilesystemRead, ArtifactsRead:
		return false
	}
	return true // an unknown capability is sensitive
}

// Tier is where a call runs.
type Tier string

// The tiers.
const (
	TierBuiltin Tier = "builtin" // in process, Palyra's own trusted code only
	TierA       Tier = "A"       // WASM
	TierB       Tier = "B"       // native, OS limits and kernel filters
	TierC       Tier = "C"       // native, full OS sandbox
	TierNode    Tier = "node"    // remote

	// TierUnsandboxed is that of a checked call: the agent runs it by its own tools, and Palyra neither runs nor holds it.
	TierUnsandboxed Tier = "unsandboxed"
)

// Source says where a tool comes from.
type Source string

// The sources.
const (
	SourceBuiltin Source = "builtin"
	SourceSkill   Source = "skill"
	SourceMCP     Source = "mcp"
	SourceAgent   Source = "agent" // a tool of the agent's own, of which Palyra knows the name only
)

// ForAgents reports whether agents are shown the tool. The others are what Palyra itself proposes, so that it walks
// the gate; from anybody else they are refused.
func (t Tool) ForAgents() bool {
	return t.Source != SourceBuiltin || t.Name != ToolAllowHost && t.Name != ToolPairDevice
}

// Tool describes something callable.
type Tool struct {
	Name         ToolName        `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	Source       Source          `json:"source"`
	Capabilities []Capability    `json:"capabilities"`
	Tier         Tier            `json:"tier"`
	ReadOnly     bool            `json:"read_only"`
	InputSchema  json.RawMessage `json:"input_schema"`
	MaxInput     int64           `json:"max_input_bytes"` // arguments over this are refused
	Workspace    bool            `json:"workspace"`       // works in a workspace
}

// Sensitive reports whether any capability of t is.
func (t Tool) Sensitive() bool {
	return slices.ContainsFunc(t.Capabilities, func(c Capability) bool { return c.Sensitive() })
}
