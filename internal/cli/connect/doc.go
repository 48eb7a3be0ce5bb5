// Package connect writes Palyra into the configurations of other programs, and takes it out again:
// as an MCP server of their own ('palyra mcp install'), and as the hook that they run before their
// own tools ('palyra hook install'). It leaves alone everything that is not certainly ours.
package connect
