// Package processargs has the arguments of palyra.process.run and palyra.process.start as the command proposes them.
// Their bytes are what a call is known again by: whoever proposes one must write them here.
package processargs

import (
	"bytes"
	"encoding/json"
)

// Arguments is the input of the tool.
type Arguments struct {
	Command  string            `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Stdin    string            `json:"stdin,omitempty"`
	StdinB64 string            `json:"stdin_b64,omitempty"`
	Live     bool              `json:"stdin_live,omitempty"`
	Terminal *Size             `json:"terminal,omitempty"`
	Tier     string            `json:"tier,omitempty"`
	Profile  string            `json:"profile,omitempty"`
	Egress   []string          `json:"egress,omitempty"`
	Bindings []string          `json:"bindings,omitempty"`
	Publish  []string          `json:"publish,omitempty"`
	Script   string            `json:"script,omitempty"`
	Held     bool              `json:"require_limits,omitempty"`
	Writes   bool              `json:"live,omitempty"` // to the workspace directly
	Agent    bool              `json:"agent_socket,omitempty"`
	Staged   bool              `json:"staged,omitempty"`
	Within   []string          `json:"agent_within,omitempty"`
	Limits   *Limits           `json:"limits,omitempty"`
}

// Size is the size of a terminal.
type Size struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// Limits are the limits that the command line lowers.
type Limits struct {
	CPUMS       int64 `json:"cpu_ms,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	Processes   int64 `json:"processes,omitempty"`
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
}

// Encode is any value as JSON with HTML characters unescaped, without a newline.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
