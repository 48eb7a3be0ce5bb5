package process

import (
	"context"
	"os"
	"path"
	"slices"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/prune"
	"palyra/internal/show"
)

// whyLive returns why others must see at once what the run of a plan writes, or why there can be no stage for it; "":
// it can be staged.
func (d *Driver) whyLive(ctx context.Context, a arguments, p *palyra.Plan) string {
	switch {
	case p.Background(): // first: policy asks about that, whatever else holds
		return palyra.LiveBackground
	case p.Tier != palyra.TierC:
		return "tier " + string(p.Tier) + " has no file system of its own"
	case p.AgentSocket:
		return "it is an agent, whose work is to be seen"
	case p.Terminal:
		return "it has a terminal"
	case p.Stdin == palyra.StdinLive:
		return "its input comes while it runs"
	case p.UnixSockets:
		return "it may use unix sockets"
	case a.Live: // policy asks about that: whoever runs it chose that nobody judges what it does
		return palyra.LiveAsked
	case d.Stages == nil:
		return "not configured"
	}
	return d.Stages.Stageable(ctx, *p)
}

// layer decides whether a run writes to the stage of an agent, its own or that of the one that it works for, whose workspace
// it returns. There is no other way for such a run: where it cannot be, it is refused.
func (d *Driver) layer(ctx context.Context, c *palyra.Call, a arguments, p *palyra.Plan) (*os.File, error) {
	if d.Stages == nil && !a.Staged {
		return nil, nil
	}
	refuse := func(why string) error {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "what the agent writes cannot be staged: %s", why).
			WithRemedy("run it without --staged: it then writes to the workspace directly; 'palyra sandbox doctor' says what holds here")
	}
	if d.Stages == nil {
		return nil, refuse("not configured")
	}
	of, dir, err := d.Stages.Layer(c.Proposal, p.Workspace.Path)
	switch {
	case err != nil:
		return nil, err
	case of != "" && a.Staged || of != "" && a.Live:
		_ = dir.Close()
		return nil, malformed("the call works on the stage of agent %s", of).WithRemedy("leave out 'staged' and 'live'")
	case of != "" && p.Background(): // what it writes is to be seen meanwhile, and nobody is asked about a stage's runs
		_ = dir.Close()
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "a staged agent starts no background processes").
			WithRemedy("run the program and what needs it in one call, or run the agent without --staged")
	case of != "" && p.Tier != palyra.TierC:
		_ = dir.Close()
		return nil, malformed("the call works on the stage of agent %s, which only tier c has", of).WithRemedy("leave the tier out")
	case of != "":
		p.Staging = palyra.Staging{Writes: palyra.WritesStaged, Of: of}
		return dir, nil
	case !a.Staged:
		return nil, nil
	}
	if p.Workspace.Repository != (palyra.Repository{}) {
		return nil, refuse("the repository of its work tree lies outside of it")
	}
	if why := d.Stages.Stageable(ctx, *p); why != "" {
		return nil, refuse(why)
	}
	p.Staging = palyra.Staging{Writes: palyra.WritesStaged, Review: true}
	return nil, nil
}

// unasked reports whether nobody may be asked about a run that writes directly: there can be no stage for it, and it has
// nothing else that asks.
func unasked(a arguments, p *palyra.Plan) bool {
	return p.Tier == palyra.TierC && !p.Background() && !p.AgentSocket && !p.Terminal &&
		p.Stdin != palyra.StdinLive && !p.UnixSockets && !a.Live
}

// apart gives a run that nobody may be asked about caches of its own kind: it could put something there that a later run
// uses with a network or secrets, or that was to write to the workspace directly. So does a run whose hosts are all of
// one group, asked about or not: an answer for the group covers whatever program comes next.
func (d *Driver) apart(p *palyra.Plan) {
	kind := prune.UnaskedCache
	if len(p.Egress) > 0 {
		if _, ok := d.Groups.Of(p.Egress); !ok {
			return
		}
		kind = prune.GroupCache
	}
	if len(p.Bindings) > 0 || p.Asks || slices.ContainsFunc(p.Env, func(v palyra.EnvVar) bool { return v.Secret }) {
		return
	}
	for i, m := range p.Mounts {
		if to, ok := kind(m.Source); m.Writable && ok {
			p.Mounts[i].Source = to
		}
	}
}

// staging decides where the run of a plan writes. On a stage it finds its inputs as they were
// checked, and its changes are judged before they become the workspace's.
func (d *Driver) staging(why string, p *palyra.Plan) {
	if p.Staging.Staged() { // an agent's, which is judged when its person keeps it
		d.unseal(p)
		return
	}
	if !p.Background() && (d.Stages == nil || !d.StageAll && p.Source != palyra.SourceSkill && !loosely(p)) {
		return
	}
	if why != "" {
		p.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: why}
		return
	}
	p.Staging = palyra.Staging{Writes: palyra.WritesStaged}
	d.unseal(p)
}

// unseal opens the usual sealed names for a staged run: what it does to them is judged when it has ended. An
// operator's own names stay sealed, which nobody would judge; and so does everything beside what a profile opens that
// asks before the run, because its changes are not asked about again.
func (d *Driver) unseal(p *palyra.Plan) {
	if !p.Asks {
		p.Seals = slices.DeleteFunc(p.Seals, func(name string) bool { return d.sealed[name] })
	}
}

// unpromise takes a mechanism back that holds only where names are sealed.
func unpromise(p *palyra.Plan) {
	if len(p.Seals) == 0 {
		p.Seals = nil
		p.Enforcement.Mechanisms = slices.DeleteFunc(p.Enforcement.Mechanisms, func(m string) bool { return m == cell.SealedPaths })
	}
}

// loosely reports whether a bound file lies where a run could write.
func loosely(p *palyra.Plan) bool {
	if p.Executable.Sealed {
		return true
	}
	return slices.ContainsFunc(p.Inputs, func(in palyra.Input) bool { return !path.IsAbs(in.Path) })
}

// whereTo tells people where the run writes.
func whereTo(p *palyra.Plan) []string {
	return append(inWorkspace(p), inCaches(p)...)
}

// inCaches names the inputs in caches, which the next run could change, staged or not.
func inCaches(p *palyra.Plan) (out []string) {
	for _, in := range p.Inputs {
		if palyra.InWritableMount(p.Mounts, in.Path) {
			out = append(out, show.Line(in.Path)+" lies in a cache that other runs write: it could be changed between the check and "+
				"the program's own look at it, and is compared again when the run has ended")
		}
	}
	return out
}

func inWorkspace(p *palyra.Plan) []string {
	switch {
	case p.Staging.Review:
		return []string{"what it and its calls write stays on a layer of its own, until a person keeps it ('palyra keep') or drops it"}
	case p.Staging.Of != "":
		return []string{"writes to the layer of agent " + string(p.Staging.Of) + ", of which a person keeps what is wanted"}
	case p.Staging.Staged():
		return []string{"writes to a layer of its own; what it changes is judged when it has ended, and is the workspace's then"}
	case p.Staging.Writes == palyra.WritesLive && !loosely(p):
		return []string{"writes to the workspace directly (" + p.Staging.Why + ")"}
	case p.Staging.Writes == palyra.WritesLive:
		return []string{"writes to the workspace directly (" + p.Staging.Why + "): its inputs could be changed by another run between " +
			"the check and the program's own look at them, and are compared again when it has ended"}
	}
	return nil
}
