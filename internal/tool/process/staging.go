package process

import (
	"context"
	"path"

	"palyra"
	"palyra/internal/show"
)

// staging says where the run of a plan writes whose inputs another run could change. On
// a layer of its own it finds them as they were checked; runs that others must see
// while they go on have none.
func (d *Driver) staging(ctx context.Context, p *palyra.Plan) {
	if d.Stages == nil || !loosely(p) {
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
	default:
		why = d.Stages.Stageable(ctx, *p)
	}
	p.Staging = palyra.Staging{Writes: palyra.WritesStaged}
	if why != "" {
		p.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: why}
	}
}

// loosely reports whether what the plan binds lies where a run could write.
func loosely(p *palyra.Plan) bool {
	if p.Executable.Sealed {
		return true
	}
	for _, in := range p.Inputs {
		if !path.IsAbs(in.Path) {
			return true
		}
	}
	return false
}

// whereTo is what people are told of it.
func whereTo(p *palyra.Plan) []string {
	return append(inWorkspace(p), inCaches(p)...)
}

// inCaches says which inputs lie where the next run could change them, staged or not.
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
		return []string{"writes to a layer of its own, where its inputs are the copies that were checked; what it changes becomes the workspace's when it has ended"}
	case p.Staging.Writes == palyra.WritesLive:
		return []string{"its inputs could be changed by another run between the check and the program's own look at them (" + p.Staging.Why + "): they are compared again when it has ended"}
	}
	return nil
}
