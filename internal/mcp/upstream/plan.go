package upstream

import (
	"context"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
)

// Tool describes a tool that is offered. It implements the planner's driver.
func (r *Registry) Tool(name palyra.ToolName) (palyra.Tool, bool) {
	s, t, err := r.lookup(name)
	if err != nil {
		return palyra.Tool{}, false
	}
	return s.tool(t), true
}

// lookup finds an active tool by its name in the catalog.
func (r *Registry) lookup(name palyra.ToolName) (*server, palyra.UpstreamTool, error) {
	unknown := palyra.Errorf(palyra.NotFound, palyra.ReasonUnknownTool, "there is no tool %q of an MCP server", palyra.Clip(name, 128)).
		WithRemedy("see 'palyra mcp list'")
	rest, ok := strings.CutPrefix(string(name), "mcp.")
	if !ok {
		return nil, palyra.UpstreamTool{}, unknown
	}
	at, _, _ := strings.Cut(rest, ".")
	s, err := r.find(at)
	if err != nil {
		return nil, palyra.UpstreamTool{}, unknown
	}
	t, ok := s.active(name)
	if !ok {
		return nil, palyra.UpstreamTool{}, palyra.Errorf(palyra.NotFound, palyra.ReasonQuarantined,
			"%s is not offered: it is new, has changed since it was approved, or is gone", palyra.Clip(name, 128)).
			WithRemedy("have an operator look at it: 'palyra mcp show %s'", s.name)
	}
	return s, t, nil
}

// Names of a plan's bound inputs, after the upstream's name.
const (
	inputDefinition = "/definition"
	inputStart      = "/start"
	inputTool       = "/tools/"
)

// Plan binds everything that decides what a call does: the definition of the upstream, the plan by which its
// server runs, and the definition of the tool.
func (r *Registry) Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan) error {
	s, t, err := r.lookup(p.Tool)
	if err != nil {
		return err
	}
	p.ReadOnly = t.ReadOnly // the server's own hints do not count
	if s.def.TimeoutMS > 0 {
		p.Limits.WallMS = min(p.Limits.WallMS, s.def.TimeoutMS)
	}
	var start palyra.Digest
	if s.def.Transport == palyra.TransportHTTP {
		start, err = s.planHTTP(ctx, p)
	} else {
		start, err = s.planStdio(ctx, c, p)
	}
	if err != nil {
		return err
	}
	s.bind(p)
	id := "mcp:" + s.name
	p.Inputs = append(p.Inputs,
		palyra.Input{Path: id + inputDefinition, Digest: s.digest()}, palyra.Input{Path: id + inputStart, Digest: start},
		palyra.Input{Path: id + inputTool + t.Name, Digest: t.Digest})
	p.Detail.Summary = show.Middle(s.name+": "+t.Name+" "+string(p.Arguments), 240)
	p.Detail.Notes = append(p.Detail.Notes, "what the tool does is up to the MCP server "+s.name+
		"; nothing of it is bound but its program and the tool's definition")
	p.Detail.Notes = append(p.Detail.Notes, claimNotes(s.name, t)...)
	return nil
}

func (s *server) digest() palyra.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up.Digest
}

// planStdio shows a call in the room of its server.
func (s *server) planStdio(ctx context.Context, c *palyra.Call, p *palyra.Plan) (palyra.Digest, error) {
	start, err := s.r.Launcher.Resolve(ctx, s.name, s.def)
	if err != nil {
		return "", err
	}
	if s.def.Workspace != "" {
		if in := c.Proposal.Within; len(in) > 0 && !slices.Contains(in, strings.TrimSuffix(s.def.Workspace, palyra.UpstreamReadOnly)) {
			return "", palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied,
				"the credential reaches other workspaces than that of the MCP server %s", s.name).
				WithRemedy("have an operator widen the credential")
		}
		p.Workspace = start.Workspace
	}
	p.Tier, p.Profile, p.Mounts, p.Egress = start.Tier, start.Profile, start.Mounts, start.Egress
	p.UnixSockets, p.Asks, p.Enforcement, p.Staging = start.UnixSockets, start.Asks, start.Enforcement, start.Staging
	wall, output := p.Limits.WallMS, p.Limits.OutputBytes
	p.Limits = start.Limits
	p.Limits.WallMS, p.Limits.OutputBytes, p.Limits.EmittedBytes = wall, output, 0
	for _, cap := range start.Capabilities {
		if cap == palyra.Network && !slices.Contains(p.Capabilities, cap) { // a profile's hosts
			p.Capabilities = append(slices.Clone(p.Capabilities), cap)
			slices.Sort(p.Capabilities)
		}
	}
	p.Detail.Notes = append(p.Detail.Notes, "the server runs: "+show.Middle(show.Argv(s.def.Command), 400))
	return start.Digest()
}

// planHTTP shows a call to a server elsewhere.
func (s *server) planHTTP(ctx context.Context, p *palyra.Plan) (palyra.Digest, error) {
	host, err := s.host()
	if err != nil {
		return "", err
	}
	if len(s.def.Bindings) > 0 && s.r.Secrets != nil {
		if p.Enforcement.Mechanisms, err = s.r.Secrets.Mechanisms(ctx, s.name, s.def, host); err != nil {
			return "", err
		}
		p.Detail.Notes = append(p.Detail.Notes, "the server gets the secrets of "+strings.Join(s.def.Bindings, ", ")+" from Palyra")
	}
	p.Egress = []string{host}
	p.Detail.Notes = append(p.Detail.Notes, "the server is at "+show.Line(palyra.Clip(s.def.URL, 300)))
	if strings.HasPrefix(s.def.URL, "http:") {
		p.Detail.Notes = append(p.Detail.Notes, "goes over the network in clear: anybody on the way can read and change it")
	}
	return palyra.Plan{Egress: p.Egress}.Digest()
}
