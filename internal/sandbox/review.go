package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"time"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/stage"
	"palyra/internal/subpath"
)

// Work is what an agent and its calls wrote, which lies on the agent's stage.
type Work struct {
	Agent     palyra.CallID
	Workspace string
	Began     time.Time
	Ended     time.Time // zero: it goes on, or was cut off
	Running   bool      // it goes on, or a call of it does
	Cut       bool      // the machine stopped while it ran: some of it may be lost
	Changes   []stage.Change
	Theirs    []string // paths that somebody else changed in the workspace since it began, which are not among the changes
}

// List returns the digest of the list of those changes that are picked, and how many they are.
func (w *Work) List(pick func(path string) bool) (palyra.Digest, int, error) {
	var all []stage.Change
	for _, c := range w.Changes {
		if pick(c.Path) {
			all = append(all, c)
		}
	}
	e, _, err := effects.List(ChangesOf(all))
	return e.Digest, len(all), err
}

// StillRuns refuses to decide about the work of an agent that goes on.
func StillRuns(agent palyra.CallID) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict, "the agent %s, or a call of it, still runs", agent).
		WithRemedy("wait for its end, or end it: palyra calls cancel %s", agent)
}

// Content is a file of an agent's work, before and after.
type Content struct {
	stage.Change
	Before, After []byte
	Why           string // why it is not given
}

// Part is some of an agent's work, that a call keeps or drops.
type Part struct {
	Call, Agent palyra.CallID
	Payer       string
	Pick        func(path string) bool
	Drops       bool        // it is not wanted, so what somebody else changed is meant too
	Weigh       stage.Weigh // judges what is to be kept; nil: it is kept
}

// Reviewer is a backend with the work of agents. Where there is none of an agent the error is palyra.NotFound.
type Reviewer interface {
	// Works returns the work of all agents, without changes.
	Works(ctx context.Context) ([]Work, error)
	// Work returns the work of an agent, and shows it to see, which may be nil.
	Work(ctx context.Context, agent palyra.CallID, see stage.Weigh) (Work, error)
	// Contents reads files of it, before and after.
	Contents(ctx context.Context, w Work, pick func(stage.Change) bool, most int64, f func(Content) bool) error
	// KeepWork makes a part the workspace's, as the changes of any run. It returns the work as it was before.
	KeepWork(ctx context.Context, p Part) (Exit, Work, error)
	// DropWork throws a part away, and returns the work as it was before.
	DropWork(ctx context.Context, p Part) (Work, error)
}

// Reviewer returns the backend that has the work of agents, or the reason why there is none.
func (r *Runner) Reviewer() (Reviewer, error) {
	for _, b := range r.Backends {
		if v, ok := b.(Reviewer); ok {
			return v, nil
		}
	}
	return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "no agent's work is staged on this system").
		WithRemedy("run palyrad on Linux")
}

// ReviewArguments are those of the tools that keep or drop the work of an agent.
type ReviewArguments struct {
	Agent palyra.CallID     `json:"agent"`
	Paths []palyra.PathText `json:"paths,omitempty"` // paths, directories and patterns; none: all
}

// reviewed is what such a tool returns.
type reviewed struct {
	Agent     palyra.CallID     `json:"agent"`
	Paths     int64             `json:"paths"`     // that were meant
	Left      int64             `json:"left"`      // that still wait
	Conflicts []palyra.PathText `json:"conflicts"` // that somebody else changed, and that wait therefore
	More      int64             `json:"more_conflicts"`
}

// Picker returns what paths and patterns mean among changes; one that means nothing is an error.
func Picker(paths []palyra.PathText, w Work) (func(path string) bool, error) {
	if len(paths) == 0 {
		return func(string) bool { return true }, nil
	}
	picked := map[string]bool{}
	for _, text := range paths {
		pattern := path.Clean(text.Asked())
		if rel, ok := subpath.Rel(w.Workspace, pattern); ok && path.IsAbs(pattern) {
			pattern = rel
		}
		means := meant
		if w.names(pattern) { // the name of something, whatever it means as a pattern
			means = subpath.Within
		} else if _, err := path.Match(pattern, ""); err != nil {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s is neither a path nor a pattern", text).WithCause(err)
		}
		found := false
		for _, c := range w.Changes {
			if means(pattern, c.Path) {
				picked[c.Path], found = true, true
			}
		}
		for _, p := range w.Theirs {
			if means(pattern, p) {
				picked[p], found = true, true
			}
		}
		if !found {
			return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound,
				"the agent changed nothing at %s, or it was kept or dropped already", text).
				WithRemedy("'palyra changes %s' lists what waits; paths are relative to the workspace", w.Agent)
		}
	}
	return func(p string) bool { return picked[p] }, nil
}

// names reports whether a text is the name of something that waits, or of a directory above it.
func (w *Work) names(name string) bool {
	return slices.ContainsFunc(w.Changes, func(c stage.Change) bool { return subpath.Within(name, c.Path) }) ||
		slices.ContainsFunc(w.Theirs, func(p string) bool { return subpath.Within(name, p) })
}

// meant reports whether a pattern means a path: by matching it, or a directory above it.
func meant(pattern, p string) bool {
	for at := p; at != "" && at != "."; at = path.Dir(at) {
		if ok, _ := path.Match(pattern, at); ok || at == pattern {
			return true
		}
	}
	return pattern == "."
}

// Review implements the gate's runner for the calls by which a person keeps or drops the work of an agent.
func (r *Runner) Review(ctx context.Context, start palyra.Launch, c *palyra.Call) palyra.Result {
	begun := r.Now()
	fail := func(err error) palyra.Result { return r.refused(begun, c.ID, err) }
	if !r.enter() {
		return fail(palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping"))
	}
	defer r.busy.Done()
	v, err := r.Reviewer()
	if err == nil {
		err = start.For(c)
	}
	var a ReviewArguments
	if err == nil {
		err = json.Unmarshal(start.Plan().Arguments, &a)
	}
	var w Work
	if err == nil {
		w, err = v.Work(ctx, a.Agent, nil)
	}
	part := Part{Call: c.ID, Agent: a.Agent, Payer: c.Proposal.Payer()}
	if err == nil {
		part.Pick, err = Picker(a.Paths, w)
	}
	if err == nil {
		err = planned(start.Plan(), a.Agent, &w, part.Pick)
	}
	if err != nil {
		return fail(err)
	}
	res := palyra.Result{Executor: "builtin", Started: begun, Enforcement: start.Plan().Enforcement}
	if c.Proposal.Tool == palyra.ToolStageDrop {
		w, err = v.DropWork(ctx, part)
	} else {
		err = r.keepWork(ctx, start, c, v, part, &w, &res)
	}
	if err != nil {
		return fail(err)
	}
	return r.reviewedAs(res, a.Agent, part, w, c.Proposal.Tool == palyra.ToolStageDrop)
}

// planned refuses to decide about other changes than those that the plan was made of.
func planned(p palyra.Plan, agent palyra.CallID, w *Work, pick func(path string) bool) error {
	list, _, err := w.List(pick)
	if err == nil && !slices.Contains(p.Inputs, palyra.Input{Path: palyra.StagedWork + string(agent), Digest: list}) {
		err = palyra.PlanChanged("what waits of the agent")
	}
	return err
}

// keepWork keeps a part, judged as the changes of a run are.
func (r *Runner) keepWork(
	ctx context.Context, start palyra.Launch, c *palyra.Call, v Reviewer, part Part, w *Work, res *palyra.Result,
) error {
	l := &runStart{Runner: r, call: c.ID, from: c, plan: start.Plan(), weigher: start.Weigh}
	if r.List != nil {
		ctx := context.WithoutCancel(ctx)
		part.Weigh = func(f stage.Found) stage.Ruling { return l.weigh(ctx, f) }
	}
	exit, was, err := v.KeepWork(ctx, part)
	if *w = was; err != nil {
		return err
	}
	r.report(ctx, c, exit)
	res.Left, res.Quarantined, res.More = exit.Remnants, exit.Quarantined, exit.More
	res.Changes, res.Listed = ChangesOf(exit.Effects.Changes), l.listed
	settle(res, exit.Effects)
	return nil
}

// reviewedAs says what was kept or dropped, and what waits still.
func (r *Runner) reviewedAs(res palyra.Result, agent palyra.CallID, part Part, w Work, drops bool) palyra.Result {
	out := reviewed{Agent: agent, Conflicts: []palyra.PathText{}}
	for _, c := range w.Changes {
		if part.Pick(c.Path) {
			out.Paths++
		} else {
			out.Left++
		}
	}
	const shown = 100
	for _, p := range w.Theirs {
		if drops && part.Pick(p) {
			out.Paths++
			continue
		}
		if out.Left++; len(out.Conflicts) < shown {
			out.Conflicts = append(out.Conflicts, palyra.TextOfPath(p))
		} else {
			out.More++
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		err = errors.Join(err, errors.New("sandbox: review"))
		res.Failure = refusal(palyra.AsError(err))
	}
	res.Output, res.OutputDigest, res.Finished = text, palyra.SumBytes(text), r.Now()
	return res
}
