package process

import (
	"context"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
	"palyra/secrets"
)

// maxBindings is the most secrets that a call may use.
const maxBindings = 16

// Secrets says which secrets a call may use.
type Secrets interface {
	// Usable returns the bindings of those names whose secret is there. A name that is not known, or is not for the call, is
	// an error.
	Usable(ctx context.Context, p palyra.Proposal, workspace string, names []string) ([]secrets.Binding, error)
}

// lend writes the secrets that the run gets placeholders for into the plan, with the hosts that they are for.
func (d *Driver) lend(ctx context.Context, from palyra.Proposal, a arguments, p *palyra.Plan) error {
	names := slices.Compact(slices.Sorted(slices.Values(a.Bindings)))
	if len(names) == 0 {
		return nil
	}
	if len(names) > maxBindings {
		return malformed("%d bindings are too many", len(names)).WithRemedy("give at most %d", maxBindings)
	}
	if d.Secrets == nil || from.Check {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "there are no secrets to lend here").
			WithRemedy("propose the call without bindings")
	}
	have, err := d.Secrets.Usable(ctx, from, p.Workspace.Path, names)
	if err != nil {
		return err
	}
	if a, b, clash := secrets.Clash(have); clash {
		return malformed("the bindings %s and %s would set the same variables to different keys", a.Name, b.Name).
			WithRemedy("propose a call for each")
	}
	for _, b := range have {
		if i := slices.IndexFunc(p.Env, func(v palyra.EnvVar) bool { return slices.Contains(b.Variables(), v.Name) }); i >= 0 {
			return malformed("the variable %s would hold the placeholder of the binding %s, and the call sets it", p.Env[i].Name, b.Name).
				WithRemedy("leave it out of env")
		}
		hosts, err := d.hosts(b.Hosts)
		if err != nil {
			return err
		}
		if b.Kind.Asks() { // the run itself reaches nothing, and uses nothing
			p.Signers = append(p.Signers, b.Name)
		} else {
			p.Bindings, p.Egress = append(p.Bindings, b.Name), append(p.Egress, hosts...)
		}
		note(p, "%s", b.Note())
		names = slices.DeleteFunc(names, func(n string) bool { return n == b.Name })
	}
	for _, n := range names {
		note(p, "the secret of the binding %s is not there: no placeholder stands for it", show.Line(n))
	}
	slices.Sort(p.Egress)
	p.Egress = slices.Compact(p.Egress)
	if err := d.lendKeys(have, p); err != nil {
		return err
	}
	p.Enforcement.Mechanisms = slices.Concat(p.Enforcement.Mechanisms, secrets.Mechanisms(have))
	slices.Sort(p.Enforcement.Mechanisms)
	for _, c := range []palyra.Capability{palyra.Network, palyra.SecretsRead} {
		if len(p.Bindings) > 0 && !slices.Contains(p.Capabilities, c) {
			p.Capabilities = append(slices.Clone(p.Capabilities), c)
		}
	}
	slices.Sort(p.Capabilities)
	return nil
}

// lendKeys furnishes the room for keys: the programs in it find host keys and what signs, and no key.
func (d *Driver) lendKeys(have []secrets.Binding, p *palyra.Plan) error {
	have = slices.DeleteFunc(slices.Clone(have), func(b secrets.Binding) bool { return !b.Kind.Keys() })
	if len(have) == 0 {
		return nil
	}
	if d.Keys == nil {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "there are no keys to lend here").
			WithRemedy("propose the call without bindings")
	}
	f, err := d.Keys(have)
	if err != nil {
		return err
	}
	p.Files = slices.SortedFunc(slices.Values(slices.Concat(p.Files, f.Files)),
		func(a, b palyra.RoomFile) int { return strings.Compare(a.Target, b.Target) })
	p.Mounts = slices.SortedFunc(slices.Values(slices.Concat(p.Mounts, f.Mounts)),
		func(a, b palyra.Mount) int { return strings.Compare(a.Target, b.Target) })
	p.UnixSockets = p.UnixSockets || f.UnixSockets
	return nil
}
