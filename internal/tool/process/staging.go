package process

import (
	"context"
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

// unasked reports whether nobody may be asked about a run that writes directly: there can be no stage for it, and it has
// nothing else that asks.
func unasked(a arguments, p *palyra.Plan) bool {
	return p.Tier == palyra.TierC && !p.AgentSocket && !p.Terminal && p.Stdin != palyra.StdinLive && !p.UnixSockets && !a.Live
}

// apart gives a run that nobody may be asked about caches of its own kind: it could put something there that a later run
// uses with a network or secrets, or that was to write to the workspace directly.
func apart(p *palyra.Plan) {
	if len(p.Egress)+len(p.Bindings) > 0 || p.Asks {
		return
	}
	for i, m := range p.Mounts {
		if to, ok := prune.UnaskedCache(m.Source); m.Writable && ok {
			p.Mounts[i].Source = to
		}
	}
}

// staging decides where the run of a plan writes. On a stage it finds its inputs as they were
// checked, and its changes are judged before they become the workspace's.
func (d *Driver) staging(why string, p *palyra.Plan) {
	if d.Stages == nil || !d.StageAll && !loosely(p) {
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
		p.Seals = slices.DeleteFunc(p.Seals, func(name string) bool { return slices.Contains(d.Seals, name) })
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
