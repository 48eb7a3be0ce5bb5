package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/store"
	"palyra/internal/wasm"
)

// Call runs a granted call of a skill's tool.
func (r *Registry) Call(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	res := palyra.Result{Started: r.Now()}
	plan := l.Plan()
	s, err := r.check(l, c)
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, plan.Stopped(ctx, err))
		res.Refusal, res.Finished = &refusal, r.Now()
		return res
	}
	ctx, leave, err := r.enter(ctx, s)
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, err)
		res.Refusal, res.Finished = &refusal, r.Now()
		return res
	}
	defer leave()
	if readsFolder(s, plan.Tool) {
		return r.callRead(ctx, s, plan)
	}
	if runsScript(s, plan.Tool) {
		return r.callScript(ctx, s, l, c)
	}
	got, err := r.Runtime.Run(ctx, r.invocation(ctx, s, c, plan))
	res.Executor, res.Enforcement = executor(got), plan.Enforcement
	res.Output, res.Stderr, res.Truncated, res.ExitCode = got.Output, got.Logs, got.Cut, got.Exit
	used, names := usedOf(got)
	res.Runtime = &palyra.Runtime{
		Name: got.Runtime, ABI: got.ABI, Skill: s.ID + "@" + s.Version, Package: s.Digest, Fuel: int64(min(got.Fuel, 1<<62)),
		Granted: names(got.Granted), Used: names(permitsOf(got)), Refused: refusals(got),
	}
	if err = stopped(ctx, plan, err); err != nil {
		fail(&res, plan, err)
	}
	if lost := r.Used(context.WithoutCancel(ctx), s.Digest, used); lost != nil {
		r.Log.Warn("what a skill used could not be kept", "skill", s.ID, "error", lost)
	}
	res.Finished = r.Now()
	res.Usage = palyra.Usage{
		WallMS: res.Finished.Sub(res.Started).Milliseconds(), PeakMemory: got.Memory, BytesIn: int64(len(plan.Arguments)),
		BytesOut: int64(len(res.Output)),
	}
	return res
}

// stopped is why a call ended: it was taken away, also where it had just come to its end, or as the plan says.
func stopped(ctx context.Context, plan palyra.Plan, err error) error {
	if e := (*palyra.Error)(nil); errors.As(context.Cause(ctx), &e) && e.Reason == skill.ReasonTaken {
		return e
	}
	return plan.Stopped(ctx, err)
}

// executor names the runtime as attestations do.
func executor(got wasm.Result) string {
	if name, _, ok := strings.Cut(got.Runtime, " "); ok {
		return name
	}
	return "wasmtime"
}

// fail says why a tool failed, and by which limit.
func fail(res *palyra.Result, plan palyra.Plan, err error) {
	layer := palyra.LayerTier
	switch reason := palyra.AsError(err).Reason; reason {
	case wasm.ReasonDeadline, palyra.ReasonTimedOut:
		layer, res.TimedOut, res.KillReason = palyra.LayerLimit, true, palyra.Stop("wall")
	case wasm.ReasonFuel, wasm.ReasonMemory, wasm.ReasonTable, wasm.ReasonStack, wasm.ReasonOutput, wasm.ReasonHostCalls, wasm.ReasonHostBytes:
		layer, res.KillReason = palyra.LayerLimit, palyra.Stop(strings.TrimPrefix(string(reason), "wasm_"))
	case palyra.ReasonCancelled:
		res.Cancelled = true
	}
	failure := palyra.RefusalOf(layer, err)
	if failure.Remedy == "" {
		failure.Remedy = "look at the tool's arguments: 'palyra tools show " + string(plan.Tool) + "'; what it wrote to its log is in stderr"
	}
	res.Failure, res.Output = &failure, nil
	if res.ExitCode == 0 {
		res.ExitCode = 1
	}
}

// check returns the skill when the launch is real, is for this call, and package and grant are still those of the plan.
func (r *Registry) check(l palyra.Launch, c *palyra.Call) (skill.Skill, error) {
	if err := l.For(c); err != nil {
		return skill.Skill{}, err
	}
	plan := l.Plan()
	if plan.Source != palyra.SourceSkill {
		return skill.Skill{}, palyra.Errorf(palyra.Denied, palyra.ReasonInternal, "the call is not one of a skill's tools")
	}
	s, _, err := r.lookup(plan.Tool)
	switch {
	case err != nil:
		return s, err
	case !slices.Contains(plan.Inputs, palyra.Input{Path: saysSkill + s.ID + inputPackage, Digest: s.Digest}),
		runsScript(s, plan.Tool) && !slices.Contains(plan.Inputs, grantedInput(s)):
		return s, palyra.PlanChanged("the skill " + s.ID)
	case runsScript(s, plan.Tool): // whose promise has more than the skill's own
		return s, nil
	case !slices.Equal(plan.Enforcement.Mechanisms, mechanisms(s)):
		return s, palyra.PlanChanged("the skill " + s.ID)
	case readsFolder(s, plan.Tool):
		return s, nil
	case r.Runtime == nil:
		return s, noRuntime()
	}
	return s, r.Runtime.Ready()
}

// invocation is a call as the runtime makes it.
func (r *Registry) invocation(ctx context.Context, s skill.Skill, c *palyra.Call, plan palyra.Plan) wasm.Invocation {
	spec := specOf(s, plan.Tool)
	kind, function := kindOf(spec)
	i := wasm.Invocation{
		Kind: kind, Function: function, Input: plan.Arguments,
		Module: wasm.Module{Bytes: func() ([]byte, error) {
			p, err := r.open(ctx, s) // verified, and its key trusted, each time it is loaded
			if err != nil {
				return nil, err
			}
			return p.Files[spec.Module], nil
		}},
		Limits: wasm.Limits{
			Fuel: uint64(s.Limits.Fuel), Memory: memoryOf(s), Deadline: deadlineOf(s, plan),
			Output: plan.Limits.OutputBytes,
		},
		Grants: wasm.Grants{Storage: s.Granted.Storage, Tools: s.Granted.Tools, Clock: true, Random: true, Log: true},
	}
	for _, in := range plan.Inputs {
		if in.Path == saysSkill+s.ID+inputModule+spec.Module {
			i.Module.Digest = in.Digest
		}
	}
	for _, h := range s.Granted.Hosts {
		i.Grants.HTTPHosts = append(i.Grants.HTTPHosts, strings.TrimSuffix(h, ":443"))
	}
	for _, name := range s.Granted.Secrets {
		i.Grants.Secrets = append(i.Grants.Secrets, wasm.SecretGrant{Name: name, Hosts: i.Grants.HTTPHosts})
	}
	if r.Host != nil {
		i.Host = r.Host(c, ownerOf(s))
	}
	i.Host.Refused = func(ctx context.Context, w wasm.Refusal) error { return r.refused(ctx, s, c, w) }
	return i
}

// recordWithin bounds a write that must happen though the caller is gone.
const recordWithin = 30 * time.Second

// refused puts on record that a skill reached for what it was not granted.
func (r *Registry) refused(ctx context.Context, s skill.Skill, c *palyra.Call, w wasm.Refusal) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	return r.DB.Write(ctx, "skill.refused", func(tx *store.Tx) error {
		_, err := r.Journal.Append(tx, palyra.AlertRaised{
			Reason: w.Reason, Principal: c.Proposal.Principal, PeerUID: c.Proposal.PeerUID, Call: c.ID, Count: 1,
			Method: "skill " + s.ID + " " + w.Function, Path: termOf(w.Permit) + ": " + w.Text,
		})
		return err
	})
}

// ownerOf is whose keys those of a skill are: what one publisher's skill kept is nothing for another's of that name.
func ownerOf(s skill.Skill) string { return s.Publisher + "/" + s.ID }

// kinds are the capabilities that permits of the runtime are.
var kinds = map[wasm.PermitKind]string{
	wasm.HTTP: "hosts", wasm.Secret: "secrets", wasm.Storage: "storage", wasm.Tool: "tools",
}

// termOf is a permit as KIND:NAME.
func termOf(p wasm.Permit) string {
	kind, named := kinds[p.Kind]
	switch {
	case !named:
		return string(p.Kind)
	case p.Kind == wasm.HTTP && !strings.Contains(p.Name, ":"):
		return kind + ":" + p.Name + ":443"
	}
	return kind + ":" + p.Name
}

// usedOf is what an invocation needed, as far as it was let, and how permits are written.
func usedOf(got wasm.Result) (used skill.Capabilities, names func([]wasm.Permit) []string) {
	for _, u := range got.Used {
		if kind, value, ok := strings.Cut(termOf(u.Permit), ":"); ok && u.Count > u.Refused {
			used = used.Add(kind, value)
		}
	}
	return used, func(all []wasm.Permit) []string {
		out := []string{}
		for _, p := range all {
			out = append(out, termOf(p))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
}

// refusals are the host calls that were refused, each once.
func refusals(got wasm.Result) (out []string) {
	for _, w := range got.Refused {
		if line := string(w.Reason) + " " + w.Function + " " + termOf(w.Permit); !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// permitsOf are the permits of an invocation that it asked to use: what it only wished for has names of its own making.
func permitsOf(got wasm.Result) (out []wasm.Permit) {
	for _, u := range got.Used {
		if slices.Contains(got.Granted, u.Permit) {
			out = append(out, u.Permit)
		}
	}
	return out
}
