package tiers

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/egress/lend"
	"palyra/internal/mcp/upstream"
	"palyra/internal/tool/process"
	"palyra/secrets"
)

// serverCall is what stands for the start of a server where a call is wanted: nobody proposed it.
func serverCall() *palyra.Call {
	return &palyra.Call{Proposal: palyra.Proposal{Tool: process.Name, Proposer: palyra.Proposer{Principal: palyra.SystemDaemon}}}
}

// bound returns the bindings of a server, all of them with their secrets.
func (s Servers) bound(ctx context.Context, name, workspace string, names []string) ([]secrets.Binding, error) {
	if s.Vault == nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "there is no vault to take secrets from").
			WithRemedy("add the server without --secret")
	}
	have, err := s.Vault.Usable(secrets.ForUpstream(ctx, name), serverCall().Proposal, workspace, names)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if !slices.ContainsFunc(have, func(b secrets.Binding) bool { return b.Name == n }) {
			return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the secret of the binding %s is not there: the MCP server %s "+
				"is not started without it", n, name).WithRemedy("put it: see 'palyra vault bindings' for its name, then 'palyra vault put'")
		}
	}
	return have, nil
}

// programBindings checks that a program finds the placeholders of its bindings.
func (s Servers) programBindings(ctx context.Context, name string, def palyra.UpstreamDefinition) error {
	have, err := s.bound(ctx, name, strings.TrimSuffix(def.Workspace, palyra.UpstreamReadOnly), def.Bindings)
	for _, b := range have {
		if b.Env == "" && b.Kind != secrets.Git {
			return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the binding %s has no variable in which a program would find its "+
				"placeholder", b.Name).WithRemedy("bind it anew with --env VARIABLE: palyra vault bind %s", b.Name)
		}
	}
	return err
}

// remoteBindings returns the bindings of a server behind a URL at host:port.
func (s Servers) remoteBindings(ctx context.Context, name string, def palyra.UpstreamDefinition, at string) ([]secrets.Binding, error) {
	have, err := s.bound(ctx, name, "", def.Bindings)
	for _, b := range have {
		switch {
		case !slices.Contains(b.Hosts, at):
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "the binding %s is for %s, and the MCP server %s is at %s",
				b.Name, strings.Join(b.Hosts, ", "), name, at).WithRemedy("bind the secret to that host: palyra vault bind --host %s", at)
		case b.Kind != secrets.Upstream && b.Kind != secrets.Header && b.Kind != secrets.Basic:
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the binding %s is for a %s, which the daemon does not send to "+
				"an MCP server", b.Name, b.Kind).WithRemedy("bind the secret to a header: palyra vault bind --upstream HEADER --host %s", at)
		case !strings.HasPrefix(def.URL, "https:"):
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "a secret is bound to %s, and does not go there without TLS", at).
				WithRemedy("use an https URL")
		}
	}
	return have, err
}

// Mechanisms implements upstream.Secrets.
func (s Servers) Mechanisms(ctx context.Context, name string, def palyra.UpstreamDefinition, at string) ([]string, error) {
	have, err := s.remoteBindings(ctx, name, def, at)
	return secrets.BoundMechanisms(have), err
}

// Lend implements upstream.Secrets.
func (s Servers) Lend(ctx context.Context, name string, def palyra.UpstreamDefinition, at string) (upstream.Lent, error) {
	have, err := s.remoteBindings(ctx, name, def, at)
	if err != nil {
		return nil, err
	}
	return &serverLent{Servers: s, name: name, names: def.Bindings, uses: &uses{
		journal: s.recordUse, bindings: have, of: palyra.SecretUsed{By: palyra.SystemDaemon, Upstream: name},
		stray: func(context.Context, string, string) {}, // no program writes these requests
	}}, nil
}

// serverLent is the secrets of a session with a server behind a URL. Each request has the values as they are then.
type serverLent struct {
	Servers
	name  string
	names []string
	uses  *uses
}

// Fill implements upstream.Lent.
func (l *serverLent) Fill(r *http.Request, at string) error {
	ctx := secrets.ForUpstream(r.Context(), l.name)
	loans, err := l.Vault.Lend(ctx, serverCall().Proposal, palyra.Plan{Bindings: l.names}, lend.Placeholder)
	if err != nil {
		return err
	}
	desk := lend.Direct(loans)
	defer desk.Close()
	if len(loans) != len(l.names) {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "a secret of the MCP server %s is not there any more", l.name).
			WithRemedy("put it: see 'palyra vault bindings'")
	}
	u, err := desk.Fill(r, at)
	l.uses.note(r.Context(), at, u)
	return err
}

// Close implements upstream.Lent.
func (l *serverLent) Close() { l.uses.record(context.Background()) }
