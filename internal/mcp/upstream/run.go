package upstream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"palyra"
	"palyra/internal/show"
)

// builtinExecutor names this process, which makes the calls to remote servers.
const builtinExecutor = "builtin"

// Run implements the gate's runner for tools of upstreams.
func (r *Registry) Run(ctx context.Context, start palyra.Launch, c *palyra.Call) palyra.Result {
	res := palyra.Result{Started: r.Now()}
	plan := start.Plan()
	x, done, err := r.check(ctx, start, c)
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, plan.Stopped(ctx, err))
		res.Refusal, res.Finished = &refusal, r.Now()
		return res
	}
	defer done()
	res.Executor, res.Enforcement = held(x, plan)
	x.begin(c.ID)
	got, err := x.call(ctx, toolOf(plan), plan.Arguments)
	res.Egress, res.Omitted = x.callEnded(c.ID)
	if err != nil {
		x.halt(ctx)
		failure := palyra.RefusalOf(palyra.LayerTier, plan.Stopped(ctx, r.why(plan, x, err)))
		res.Failure, res.ExitCode = &failure, 1
	} else {
		r.deliver(ctx, c, plan, got, &res)
	}
	res.Finished = r.Now()
	res.Usage.WallMS = res.Finished.Sub(res.Started).Milliseconds()
	res.Usage.BytesIn, res.Usage.BytesOut = int64(len(plan.Arguments)), int64(len(res.Output))
	return res
}

// check returns a session when the launch is real, is for this call, and the server's tool is still the plan's.
func (r *Registry) check(ctx context.Context, start palyra.Launch, c *palyra.Call) (*connection, func(), error) {
	if err := start.For(c); err != nil {
		return nil, nil, err
	}
	plan := start.Plan()
	if plan.Source != palyra.SourceMCP {
		return nil, nil, palyra.Errorf(palyra.Denied, palyra.ReasonInternal, "the call is not one of an MCP server's tools")
	}
	s, _, err := r.lookup(plan.Tool)
	if err != nil {
		return nil, nil, err
	}
	x, done, err := s.use(ctx, bound(plan, inputStart))
	if err != nil {
		return nil, nil, err
	}
	if t, ok := s.active(plan.Tool); !ok || t.Digest != bound(plan, inputTool) { // it may just have been found to be another
		done()
		return nil, nil, palyra.Errorf(palyra.Conflict, palyra.ReasonQuarantined,
			"%s has changed since it was approved, and is not offered any more", plan.Tool).
			WithRemedy("have an operator look at it: 'palyra mcp show %s'", s.name)
	}
	return x, done, nil
}

// bound is the digest of one of a plan's inputs, by its name.
func bound(p palyra.Plan, what string) palyra.Digest {
	for _, in := range p.Inputs {
		if strings.HasSuffix(in.Path, what) || what == inputTool && strings.Contains(in.Path, what) {
			return in.Digest
		}
	}
	return "-" // no input has this digest
}

// toolOf is the server's own name of the plan's tool.
func toolOf(p palyra.Plan) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(string(p.Tool), "mcp."), ".")
	return rest
}

// held is what ran a call, and what held for it: what holds for the server's process, or for the way to it.
func held(x *connection, p palyra.Plan) (string, palyra.Enforcement) {
	if x.process != nil {
		executor, e := x.process.Held()
		limits := map[string]palyra.Hold{"wall": palyra.HoldContext, "output": palyra.HoldCap}
		for name, how := range e.Limits {
			if limits[name] == "" {
				limits[name] = how
			}
		}
		e.Limits = limits
		return executor, e
	}
	return builtinExecutor, palyra.Enforcement{
		Mode: palyra.NetworkOpen, Mechanisms: append([]string{"egress_guard"}, p.Enforcement.Mechanisms...), Limits: map[string]palyra.Hold{
			"wall":   palyra.HoldContext,
			"output": palyra.HoldCap,
		},
	}
}

// why gives a failed call the form that people can read.
func (r *Registry) why(p palyra.Plan, x *connection, err error) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(string(p.Tool), "mcp."), ".")
	if e := (*jsonrpc.Error)(nil); errors.As(err, &e) {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonUpstreamFailed, "the MCP server %s refuses the call: %s", name,
			show.Line(palyra.Clip(e.Message, 500))).
			WithRemedy("look at the tool's arguments: 'palyra tools show %s'", p.Tool)
	}
	if x.process != nil && closed(err) {
		select {
		case <-x.dead:
			return failed(name, "it ended during the call, "+x.exitText()).WithCause(err)
		case <-time.After(stopGrace):
		}
	}
	return failed(name, trimmed(err)).WithCause(err)
}
