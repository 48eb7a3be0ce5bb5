package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/mask"
)

// Executor names this runner in attestations.
const Executor = "builtin"

// ArtifactStore keeps outputs that are too large to deliver.
type ArtifactStore interface {
	// Keep stores data for a session and returns its id; it is durable when Keep returns.
	Keep(ctx context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error)
}

// Config wires a Runner.
type Config struct {
	Tools     *Set
	Artifacts ArtifactStore
	Mask      *mask.Masker // masks what tools bring back, before anything is kept of it; may be nil
	Now       func() time.Time
}

// Runner runs granted plans of built-in tools.
type Runner struct{ Config }

// NewRunner returns a Runner.
func NewRunner(c Config) (*Runner, error) {
	if c.Tools == nil || c.Artifacts == nil || c.Now == nil {
		return nil, errors.New("tool: new runner: a part is missing")
	}
	return &Runner{c}, nil
}

// Run implements the gate's runner: it runs the tool and caps its output.
func (r *Runner) Run(ctx context.Context, start palyra.Launch, c *palyra.Call) palyra.Result {
	res := palyra.Result{
		Executor: Executor, Started: r.Now(),
		Enforcement: palyra.Enforcement{
			Mode: palyra.NetworkOpen, Mechanisms: []string{},
			Limits: map[string]palyra.Hold{"wall": palyra.HoldContext, "output": palyra.HoldCap},
		},
	}
	t, err := r.check(start, c)
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, err)
		res.Refusal, res.Finished = &refusal, r.Now()
		return res
	}
	plan := start.Plan()
	ctx, of, done, err := r.Tools.enter(ctx, c, plan.Workspace.Path)
	if err == nil && of != plan.Staging.Of {
		err = palyra.PlanChanged("the stage that it works on")
	}
	defer done()
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, err)
		res.Refusal, res.Finished = &refusal, r.Now()
		return res
	}
	if m, ok := t.(Confined); ok {
		res.Enforcement.Mechanisms = m.Mechanisms(plan)
	}
	env := EnvOf(c)
	var flows flowLog
	env.Flow = flows.add
	var changed []palyra.Change
	env.Changed = func(all []palyra.Change) { changed = append(changed, all...) }
	out, err := timely(ctx, t, env, plan)
	if err != nil {
		failure := palyra.RefusalOf(palyra.LayerTier, plan.Stopped(ctx, err))
		res.Failure, res.ExitCode = &failure, 1
	}
	res.Usage.BytesIn, res.Usage.BytesOut = int64(len(plan.Arguments)), int64(len(out))
	out = r.Mask.JSON(out)
	res.Output, res.Truncated = r.deliver(ctx, c, plan, out)
	res.OutputDigest = palyra.SumBytes(out)
	res.Egress, res.Omitted = flows.list, flows.more
	r.listChanges(ctx, c, &res, changed)
	res.Finished = r.Now()
	res.Usage.WallMS = res.Finished.Sub(res.Started).Milliseconds()
	return res
}

// listChanges says what a tool changed in the workspace, as it is said of a program's run. A list that cannot be kept is
// counted all the same.
func (r *Runner) listChanges(ctx context.Context, c *palyra.Call, res *palyra.Result, all []palyra.Change) {
	if len(all) == 0 {
		return
	}
	for i := range all {
		all[i].Kind = effects.KindOf(all[i].Was, all[i].Now)
	}
	slices.SortFunc(all, func(a, b palyra.Change) int { return strings.Compare(a.Path.Raw(), b.Path.Raw()) })
	if res.Effects = palyra.EffectsKept; c.Plan.Staging.Staged() {
		res.Effects = palyra.EffectsStaged
	}
	e, text, err := effects.List(all)
	if err != nil {
		return
	}
	if id, err := r.Artifacts.Keep(context.WithoutCancel(ctx), c.Proposal.Session, c.ID, text); err == nil {
		e.List = id
	}
	res.Changes, res.Listed = all, &e
}

// check returns the tool when the launch is real and is for this call.
func (r *Runner) check(start palyra.Launch, c *palyra.Call) (Tool, error) {
	if err := start.For(c); err != nil {
		return nil, err
	}
	plan := start.Plan()
	t, known := r.Tools.byName[plan.Tool]
	if plan.Tier != palyra.TierBuiltin || !known {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "tool %q does not run in process", palyra.Clip(plan.Tool, 128)).
			WithRemedy("see 'palyra tools list'")
	}
	return t, nil
}

// lateness is how long a tool may take to notice that its time is over.
const lateness = 500 * time.Millisecond

// timely runs a tool. A read-only tool is left when its time is over, and a later result is
// dropped: it changed nothing. A tool that changes something is waited for, because its result must
// be known; it checks its context before it changes anything.
func timely(ctx context.Context, t Tool, env Env, p palyra.Plan) (json.RawMessage, error) {
	if !p.ReadOnly || len(p.Writes) > 0 {
		return guarded(ctx, t, env, p)
	}
	type result struct {
		out json.RawMessage
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := guarded(ctx, t, env, p)
		done <- result{out, err}
	}()
	var res result
	select {
	case res = <-done:
	case <-ctx.Done():
		late := time.NewTimer(lateness)
		defer late.Stop()
		select {
		case res = <-done:
		case <-late.C:
			return nil, ctx.Err()
		}
	}
	if res.err == nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return res.out, res.err
}

// guarded turns a tool's panic into a failure: the run is on record and attested.
func guarded(ctx context.Context, t Tool, env Env, p palyra.Plan) (out json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("tool: panic in %s: %v", p.Tool, r)
		}
	}()
	return t.Run(ctx, env, p)
}
