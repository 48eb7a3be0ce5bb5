package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
)

// mcpCommand is everything about the Model Context Protocol: clients that are served, and
// servers behind the gate.
func mcpCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("mcp", "Serve tools to MCP clients, and put MCP servers behind the gate",
		slices.Concat([]*cobra.Command{mcpServeCommand(inv), mcpInstallCommand(inv), mcpUninstallCommand(inv)}, mcpUpstreams(inv))...)
}

// mcpUpstreams are the commands about servers whose tools are offered.
func mcpUpstreams(inv *invocation.Invocation) []*cobra.Command {
	return []*cobra.Command{mcpAddCommand(inv), mcpListCommand(inv), mcpShowCommand(inv), mcpApproveCommand(inv), mcpRemoveCommand(inv), mcpImportCommand(inv)}
}
