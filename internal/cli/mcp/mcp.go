// Package mcp is `palyra mcp`: serving MCP clients, writing Palyra into their configurations, and
// other MCP servers behind the gate.
package mcp

import (
	"slices"

	"github.com/spf13/cobra"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
)

// Command is `palyra mcp`: serving MCP clients, and servers behind the gate.
func Command(inv *invocation.Invocation, more ...*cobra.Command) *cobra.Command {
	return syntax.Parent("mcp", "Serve tools to MCP clients, and put MCP servers behind the gate",
		slices.Concat(more, []*cobra.Command{serveCommand(inv)}, mcpUpstreams(inv))...)
}

// mcpUpstreams are the commands about upstreams.
func mcpUpstreams(inv *invocation.Invocation) []*cobra.Command {
	return []*cobra.Command{addCommand(inv), listCommand(inv), showCommand(inv), approveCommand(inv), removeCommand(inv), importCommand(inv)}
}
