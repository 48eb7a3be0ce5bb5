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
)

// Executor names this runner in attestations.
const Executor = "builtin"

// Planner resolves a call anew at launch.
type Planner interface {
	// Resolve returns everything that decides what the call will do.
	Resolve(ctx context.Context, c *palyra.Call) (palyra.Plan, error)
}

// Keeper keeps outputs that are too large to deliver.
type Keeper interface {
	// Keep stores data for a session and returns its id; it is durable when
	// Keep returns.
	Keep(ctx context.Context, session, call palyra.ID, data []byte) (palyra.ID, error)
}

// Config wires a Runner.
type Config struct {
	Tools     *Set
	Planner   Planner
	Artifacts Keeper
	Now       func() time.Time
}

// Runner runs granted plans of built-in tools.
type Runner struct{ Config }

// NewRunner returns a Runner.
func NewRunner(c Config) (*Runner, error) {
	if c.Tools == nil || c.Planner == nil || c.Artifacts == nil || c.Now == nil {
		return nil, errors.New("tool: new runner: a part is missing")
	}
	return &Runner{c}, nil
}

// Run implements the gate's runner: it re-derives the plan, refuses when it
// changed, runs the tool and caps what it brings back.
func (r *Runner) Run(ctx context.Context, g palyra.Grant, c *palyra.Call) palyra.Result {
	res := palyra.Result{
		Executor: Executor, Started: r.Now(),
		Enforcement: palyra.Enforcement{Mode: "none", Mechanisms: []string{}, Limits: map[string]string{"wall": "context", "output": "cap"}},
	}
	t, err := r.check(ctx, g, c)
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, err)
		res.Refusal, res.Finished = &refusal, r.Now()
		return res
	}
	plan := g.Plan()
	if m, ok := t.(Confined); ok {
		res.Enforcement.Mechanisms = m.Mechanisms(plan)
	}
	env := EnvOf(c)
	var flows flowLog
	env.Flow = flows.add
	out, err := timely(ctx, t, env, plan)
	if err != nil {
		failure := palyra.RefusalOf(palyra.LayerTier, ended(ctx, plan, err))
		res.Failure, res.ExitCode = &failure, 1
	}
	res.Usage.BytesIn, res.Usage.BytesOut = int64(len(plan.Arguments)), int64(len(out))
	res.Output, res.Truncated = r.deliver(ctx, c, plan, out)
	res.OutputDigest = palyra.SumBytes(out)
	res.Egress, res.Omitted = flows.list, flows.more
	res.Finished = r.Now()
	res.Usage.WallMS = res.Finished.Sub(res.Started).Milliseconds()
	return res
}

// check returns the tool when the grant is real, is for this call, and its plan
// is still what the call resolves to.
func (r *Runner) check(ctx context.Context, g palyra.Grant, c *palyra.Call) (Tool, error) {
	plan := g.Plan()
	t, known := r.Tools.byName[plan.Tool]
	switch {
	case !g.Valid() || g.Call() != c.ID:
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonInternal, "there is no grant for this call")
	case plan.Tier != palyra.TierBuiltin || !known:
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "tool %q does not run in process", palyra.Clip(plan.Tool, 128)).
			WithRemedy("see 'palyra tools list'")
	}
	now, err := r.Planner.Resolve(ctx, c)
	if err != nil {
		return nil, unresolved(ctx, plan, err)
	}
	digest, err := now.Digest()
	if err != nil {
		return nil, err
	}
	if digest != g.Digest() {
		return nil, changed(plan, now)
	}
	return t, nil
}

const again = "look at the files again and propose the call anew"

// unresolved says why a plan that once resolved does not any more.
func unresolved(ctx context.Context, p palyra.Plan, err error) error {
	if ctx.Err() != nil {
		return ended(ctx, p, err)
	}
	switch e := palyra.AsError(err); e.Code {
	case palyra.Internal, palyra.Unavailable, palyra.Exhausted: // says nothing about the plan
		return err
	default:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the plan no longer holds: %s", e.Text).WithRemedy(again).WithCause(err)
	}
}

// changed names what differs between the plan that was judged and the one that
// would run now.
func changed(judged, now palyra.Plan) error {
	var paths []string
	for _, in := range now.Inputs {
		if !slices.Contains(judged.Inputs, in) {
			paths = append(paths, in.Path)
		}
	}
	what := "the call resolves to another plan than the one that was judged"
	if len(paths) > 0 {
		const shown = 3
		what = "changed since the plan was judged: " + strings.Join(paths[:min(shown, len(paths))], ", ")
		if len(paths) > shown {
			what += fmt.Sprintf(" and %d more", len(paths)-shown)
		}
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "%s", what).WithRemedy(again)
}

// ended tells a tool that was stopped from one that failed.
func ended(ctx context.Context, p palyra.Plan, err error) error {
	switch {
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return palyra.Errorf(palyra.Expired, palyra.ReasonTimedOut, "the call ran into its time limit of %d ms", p.Limits.WallMS).
			WithRemedy("ask for less at once, or for a longer timeout").WithCause(err)
	}
	return palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "the call was cancelled").WithCause(err)
}

// lateness is how long a tool may take to notice that its time is over.
const lateness = 500 * time.Millisecond

// timely runs a tool. One that only looks ends when its time is over, whatever it is
// doing, and what it brings later counts for nothing: it left nothing behind. One that
// changes something is waited for, because what it did must be known; it looks at its
// context before it does so.
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
