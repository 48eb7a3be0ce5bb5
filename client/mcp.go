package client

import (
	"context"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// Upstreams lists the MCP servers behind the gate, without the texts of their tools.
func (c *Client) Upstreams(ctx context.Context) ([]palyra.Upstream, error) {
	res, err := c.mcp().ListUpstreams(ctx, &v1.ListUpstreamsRequest{})
	return words[palyra.Upstream](res, err, "upstreams")
}

// Upstream returns one upstream with its tools; refresh asks its server again.
func (c *Client) Upstream(ctx context.Context, name string, refresh bool) (palyra.Upstream, error) {
	res, err := c.mcp().GetUpstream(ctx, &v1.GetUpstreamRequest{Name: name, Refresh: refresh})
	return word[palyra.Upstream](res.GetUpstream(), err)
}

// AddUpstream adds an MCP server (signed): the daemon starts it and reads its tools. Unless approve
// is set they wait in quarantine.
func (c *Client) AddUpstream(ctx context.Context, name string, d palyra.UpstreamDefinition, approve bool) (palyra.Upstream, error) {
	res, err := c.mcp().AddUpstream(ctx, addRequest(name, d, approve))
	return word[palyra.Upstream](res.GetUpstream(), err)
}

// ReplaceUpstream has the MCP server of that name run by another definition (signed): at once, or not at all. Tools that are
// as they were approved stay so.
func (c *Client) ReplaceUpstream(ctx context.Context, name string, d palyra.UpstreamDefinition, approve bool) (palyra.Upstream, error) {
	req := addRequest(name, d, approve)
	req.Replace = true
	res, err := c.mcp().AddUpstream(ctx, req)
	return word[palyra.Upstream](res.GetUpstream(), err)
}

func addRequest(name string, d palyra.UpstreamDefinition, approve bool) *v1.AddUpstreamRequest {
	return &v1.AddUpstreamRequest{
		Name: name, Transport: string(d.Transport), Command: d.Command, Url: d.URL, Env: d.Env, Workspace: d.Workspace,
		Profile: d.Profile, Egress: d.Egress, Bindings: d.Bindings, TimeoutMs: d.TimeoutMS, Approve: approve,
	}
}

// RemoveUpstream ends an MCP server and takes its tools away (signed).
func (c *Client) RemoveUpstream(ctx context.Context, name string) error {
	_, err := c.mcp().RemoveUpstream(ctx, &v1.RemoveUpstreamRequest{Name: name})
	return failure(err)
}

// ApproveUpstream pins tools of an MCP server as they are now, by the digests that the approver saw
// (signed). Those in readOnly are marked as changing nothing.
func (c *Client) ApproveUpstream(ctx context.Context, name string, digests []palyra.Digest, readOnly ...palyra.Digest) (palyra.Upstream,
	error,
) {
	req := &v1.ApproveUpstreamRequest{Name: name}
	for _, d := range readOnly {
		req.ReadOnly = append(req.ReadOnly, string(d))
	}
	for _, d := range digests {
		req.Digests = append(req.Digests, string(d))
	}
	res, err := c.mcp().ApproveUpstream(ctx, req)
	return word[palyra.Upstream](res.GetUpstream(), err)
}
