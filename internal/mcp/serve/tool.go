package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/toolname"
)

// refresh shows clients the tools that the daemon has now. The SDK tells them when that changes something.
func (s *Server) refresh(ctx context.Context) error {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	case <-ctx.Done():
		return ctx.Err()
	}
	tools, err := s.list(ctx)
	if err != nil {
		return err
	}
	names := []string{waitTool, outputTool, statusTool} // nothing of the catalog may take their place
	for _, t := range tools {
		names = append(names, string(t.Name))
	}
	table := toolname.Table(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := make(map[string]bool, len(s.shown))
	for name := range s.shown {
		gone[name] = true
	}
	for _, t := range tools {
		if t.Name == ownWait || !t.ForAgents() { // the one here knows the client's patience
			continue
		}
		name, ok := table.Encode(string(t.Name))
		if !ok {
			s.Log.Warn("the name of a tool cannot be told from another's; neither is shown", "tool", t.Name)
			continue
		}
		delete(gone, name)
		s.show(name, t)
	}
	for name := range gone {
		s.mcp.RemoveTools(name)
		delete(s.shown, name)
	}
	s.showSkills(tools)
	s.online()
	return nil
}

// show adds a tool, or changes one. The lock is held.
func (s *Server) show(name string, t palyra.Tool) {
	def := definition(name, t)
	raw, err := json.Marshal(def)
	print := string(t.Name) + "\n" + string(raw) // another tool may look the same
	if err != nil || s.shown[name] == print {
		return
	}
	s.shown[name] = print
	if s.add(def, t.Name) {
		return
	}
	s.Log.Warn("the schema of a tool cannot be shown to MCP clients", "tool", t.Name)
	def.InputSchema = json.RawMessage(anyObject)
	s.add(def, t.Name)
}

// add gives a tool to the SDK, which panics on schemas that it does not like: those of upstream servers are written
// by strangers, and one must not end the server for all tools.
func (s *Server) add(def *mcp.Tool, tool palyra.ToolName) (ok bool) {
	defer func() { ok = recover() == nil }()
	s.mcp.AddTool(def, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return s.call(ctx, req, tool)
	})
	return true
}

// anyObject is shown in the place of a schema that cannot be.
const anyObject = `{"type":"object"}`

// definition is a tool as MCP clients see it.
func definition(name string, t palyra.Tool) *mcp.Tool {
	title := t.Title
	title = cmp.Or(title, string(t.Name))
	open := slices.ContainsFunc(t.Capabilities, func(c palyra.Capability) bool {
		switch c {
		case palyra.FilesystemRead, palyra.FilesystemWrite, palyra.ArtifactsRead, palyra.SecretsRead:
			return false
		}
		return true
	})
	destroys := !t.ReadOnly
	return &mcp.Tool{
		Name: name, Title: title, Description: t.Description, InputSchema: inputSchema(t.InputSchema),
		Annotations: &mcp.ToolAnnotations{Title: title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &destroys, OpenWorldHint: &open},
	}
}

// inputSchema is a tool's schema, which MCP wants to be one of an object. The
// daemon checks arguments; one that cannot be shown is shown as any object.
func inputSchema(raw json.RawMessage) json.RawMessage {
	var is struct {
		Type any `json:"type"`
	}
	if !json.Valid(raw) || json.Unmarshal(raw, &is) != nil || is.Type != "object" {
		return json.RawMessage(anyObject)
	}
	return bytes.Clone(raw)
}
