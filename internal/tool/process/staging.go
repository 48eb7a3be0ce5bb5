package process

import (
	"context"
	"path"
	"slices"

	"palyra"
	"palyra/internal/show"
)

// staging decides where the run of a plan writes. On a stage it finds its inputs as they were
// checked, and its changes are judged before they become the workspace's; a run whose writes others
// must see at once has no stage.
func (d *Driver) staging(ctx context.Context, a arguments, p *palyra.Plan) {
	if d.Stages == nil || !d.StageAll && !loosely(p) {
		return
	}
	why := ""
	switch {
	case p.Tier != palyra.TierC:
		why = "tier " + string(p.Tier) + " has no file system of its own"
	case p.AgentSocket:
		why = "it is an agent, whose work is to be seen"
	case p.Terminal:
		why = "it has a terminal"
	case p.Stdin == palyra.StdinLive:
		why = "its input comes while it runs"
	case p.UnixSockets:
		why = "it may use unix sockets"
	case a.Live: // policy asks about that: whoever runs it chose that nobody judges what it does
		why = palyra.LiveAsked
	default:
		why = d.Stages.Stageable(ctx, *p)
	}
	p.Staging = palyra.Staging{Writes: palyra.WritesStaged}
	if why != "" {
		p.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: why}
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
			out = append(out, show.Line(in.Path)+" lies in a cache that other runs write: it could be changed between the check and the program's own look at it, and is compared again when the run has ended")
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
		return []string{"writes to the workspace directly (" + p.Staging.Why + "): its inputs could be changed by another run between the check and the program's own look at them, and are compared again when it has ended"}
	}
	return nil
}
