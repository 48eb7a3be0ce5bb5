package tool

import (
	"context"

	"palyra"
)

// Foresee keeps what a checked call is about to replace by the tools of whoever proposed it. Told, which is nil where
// nothing is kept, is to be called with whether the call may be made. An error means that it may not: what would be
// replaced is not what was judged, or there is no room for it.
func (r *Runner) Foresee(ctx context.Context, c *palyra.Call) (told func(bool), err error) {
	f, ok := r.Tools.byName[c.Plan.Tool].(Foreseer)
	if !ok || !c.Proposal.Check {
		return nil, nil
	}
	env := EnvOf(c)
	env.Foreseen = func(kept func(bool)) { told = kept }
	if _, err := guarded(ctx, f, env, c.Plan); err != nil {
		if told != nil {
			told(false)
		}
		return nil, c.Plan.Stopped(ctx, err)
	}
	return told, nil
}
