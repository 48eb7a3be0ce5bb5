package tiers

import (
	"context"
	"slices"

	"palyra"
	"palyra/internal/command"
	"palyra/internal/effects"
	"palyra/internal/sandbox"
	"palyra/internal/stage"
)

// Planted implements the planner's Layers: it names what programs obey on the stage of an agent and is not so in the
// workspace, for a run that reaches beyond the stage. Where that cannot be told, the run is refused.
func (t *Tiers) Planted(ctx context.Context, p palyra.Plan) ([]palyra.PathText, error) {
	if t.Runner == nil || !reaches(p) { // of a configuration that is only thought of
		return nil, nil
	}
	r, err := t.Runner.Reviewer()
	if err != nil {
		return nil, err
	}
	w, err := r.Work(ctx, p.Staging.Of, nil)
	if err != nil {
		return nil, err
	}
	found := slices.Clone(w.Changes)
	for _, path := range w.Theirs { // somebody changed it in the workspace, and the agent did so on its stage
		found = append(found, stage.Change{Path: path})
	}
	all := sandbox.ChangesOf(found)
	e, _, err := effects.List(all)
	if err != nil {
		return nil, err
	}
	was, done := t.before(ctx, &palyra.Call{Plan: p})
	defer done()
	f := effects.FactsOf(e, all, 0, was)
	if len(f.Trusted) == 0 && f.Omitted > 0 {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
			"it cannot be told whether the agent wrote settings on its stage that the program would run with").
			WithRemedy("keep or drop the agent's work first ('palyra changes %s'), and run it outside of the stage", p.Staging.Of)
	}
	return f.Trusted, nil
}

// reaches reports whether the run of a plan could do more than write to its stage, or was meant to be asked about.
func reaches(p palyra.Plan) bool {
	return len(p.Egress)+len(p.Bindings)+len(p.Signers)+len(p.Publish) > 0 || p.UnixSockets || p.Asks ||
		slices.ContainsFunc(p.Env, func(v palyra.EnvVar) bool { return v.Secret }) ||
		len(p.Argv) > 0 && command.Of(p).Class == palyra.CommandDestructive
}
