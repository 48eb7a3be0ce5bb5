package secrets

import "context"

type upstreamKey struct{}

// ForUpstream says that what is asked for secrets is an MCP server behind the gate, and no call.
func ForUpstream(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, upstreamKey{}, name)
}

// UpstreamOf returns the name of the MCP server that secrets are for; empty: they are for a call.
func UpstreamOf(ctx context.Context) string {
	name, _ := ctx.Value(upstreamKey{}).(string)
	return name
}
