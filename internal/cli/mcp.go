package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// mcp is everything about the Model Context Protocol: clients that are served, and
// servers behind the gate.
func (a *app) mcp() *cobra.Command {
	return parent("mcp", "Serve tools to MCP clients, and put MCP servers behind the gate",
		slices.Concat([]*cobra.Command{a.mcpServe(), a.mcpInstall(), a.mcpUninstall()}, a.mcpUpstreams())...)
}

// mcpUpstreams are the commands about servers whose tools are offered.
func (a *app) mcpUpstreams() []*cobra.Command {
	return []*cobra.Command{a.mcpAdd(), a.mcpList(), a.mcpShow(), a.mcpApprove(), a.mcpRemove(), a.mcpImport()}
}
