package rpctest

import (
	"context"
	"time"

	"palyra"
	"palyra/internal/rpc/mcp"
)

// upstreamsPart keeps one MCP server.
type upstreamsPart struct{ p *Parts }

func oneUpstream() palyra.Upstream {
	return palyra.Upstream{
		Name: "files", UpstreamDefinition: palyra.UpstreamDefinition{Transport: palyra.TransportStdio, Command: []string{"server", "\x1b[31m"}},
		Digest: palyra.SumBytes([]byte("definition")), State: palyra.UpstreamReady, Server: "files 1", AddedBy: "user:ann",
		AddedAt: time.Unix(1, 0).UTC(),
		Tools: []palyra.UpstreamTool{{
			Name: "read", Tool: "mcp.files.read", State: palyra.UpstreamToolQuarantined, Why: "nobody has approved it yet",
			Description: "Reads.\x1b[2J\u202e",
			InputSchema: []byte(`{"type":"object"}`), Digest: palyra.SumBytes([]byte("read")), Claims: []string{"read-only"},
		}},
	}
}

// Add implements mcp.Upstreams.
func (u upstreamsPart) Add(ctx context.Context, a mcp.Addition) (palyra.Upstream, error) {
	u.p.note(ctx, "upstream add "+a.Name)
	one := oneUpstream()
	one.Name, one.UpstreamDefinition, one.AddedBy = a.Name, a.Definition, a.By
	return one, nil
}

// List implements mcp.Upstreams.
func (u upstreamsPart) List(ctx context.Context) ([]palyra.Upstream, error) {
	u.p.note(ctx, "upstream list")
	one := oneUpstream()
	one.Tools[0].Description, one.Tools[0].InputSchema = "", nil
	return []palyra.Upstream{one}, nil
}

// Get implements mcp.Upstreams.
func (u upstreamsPart) Get(ctx context.Context, name string, _ bool) (palyra.Upstream, error) {
	u.p.note(ctx, "upstream get "+name)
	return oneUpstream(), nil
}

// Remove implements mcp.Upstreams.
func (u upstreamsPart) Remove(ctx context.Context, name string, _ palyra.Principal, _ palyra.Signature) error {
	u.p.note(ctx, "upstream remove "+name)
	return nil
}

// Approve implements mcp.Upstreams.
func (u upstreamsPart) Approve(ctx context.Context, name string, pins []palyra.UpstreamPin, _ palyra.Principal,
	_ palyra.Signature,
) (palyra.Upstream, error) {
	u.p.note(ctx, "upstream approve "+name)
	one := oneUpstream()
	for i := range one.Tools {
		for _, p := range pins {
			if t := &one.Tools[i]; t.Digest == p.Digest {
				t.Pinned, t.ReadOnly, t.State, t.Why = p.Digest, p.ReadOnly, palyra.UpstreamToolActive, ""
			}
		}
	}
	return one, nil
}
