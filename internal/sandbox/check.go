package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"palyra"
)

const again = "look at what changed and propose the call anew"

// check returns the backend when the grant is real, is for this call, its plan is
// still what the call resolves to, and the tier still holds what it promised.
func (r *Runner) check(ctx context.Context, g palyra.Grant, c *palyra.Call) (Backend, error) {
	if !g.Valid() || g.Call() != c.ID {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonInternal, "there is no grant for this call")
	}
	plan := g.Plan()
	b, err := r.backend(plan.Tier)
	if err != nil {
		return nil, err
	}
	if err := r.runnable(plan, b); err != nil {
		return nil, err
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
		return nil, planChanged(changes(plan, now))
	}
	held, err := b.Probe(ctx, plan.Limits)
	if err == nil {
		err = r.probed(plan.Tier)
	}
	if err != nil {
		return nil, stopped(ctx, plan, err)
	}
	if lacks := missing(without(plan.Enforcement, Sealed), r.ours(b, held)); len(lacks) > 0 {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "less would hold than the plan promises: %s", some(lacks)).
			WithRemedy("propose the call anew: it is then judged by what holds now")
	}
	return b, nil
}

// runnable refuses what no native run can honour, before anything is looked at.
func (r *Runner) runnable(p palyra.Plan, b Backend) error {
	bad := func(what string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the plan cannot be run: %s", what)
	}
	switch {
	case !filepath.IsAbs(p.Executable.Path) || !p.Executable.Digest.Valid():
		return bad("it names no executable")
	case len(p.Argv) == 0:
		return bad("it has no argv")
	case !filepath.IsAbs(p.Workspace.Path):
		return bad("it has no workspace")
	case !within(p.Workspace.Path, p.Cwd):
		return bad("its working directory is not in the workspace")
	case strings.ContainsRune(strings.Join(p.Argv, ""), 0):
		return bad("an argument has a NUL byte")
	case p.Enforcement.Mode == "":
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "the plan says nothing about what the tier enforces")
	case len(p.Egress) > 0 && (!walled(b) || r.Guard == nil):
		return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "a run in tier %s has no network", p.Tier).
			WithRemedy("propose the call without egress, or in tier c")
	case len(p.Bindings) > 0:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "there is no vault to take secrets from").
			WithRemedy("propose the call without bindings")
	case p.AgentSocket && (!walled(b) || r.Agents == nil):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "tier %s has no door for agents", p.Tier).WithRemedy("propose the call in tier c")
	case p.Staging.Staged() && (!walled(b) || p.Terminal || p.Stdin == palyra.StdinLive || p.AgentSocket || p.UnixSockets):
		return bad("what it writes cannot be kept apart")
	case !walled(b) && (len(p.Mounts)+len(p.Files)+len(p.Seals) > 0 || p.Profile != "" || p.UnixSockets):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "tier %s has no profiles and no mounts", p.Tier).
			WithRemedy("propose the call without a profile, or in tier c")
	}
	return r.mountable(p)
}

// mountable refuses what a run may not be given to write: only caches of its own
// workspace, which the daemon keeps for it.
func (r *Runner) mountable(p palyra.Plan) error {
	for _, m := range p.Mounts {
		if m.Writable && (r.Caches == "" || m.Source == r.Caches || !within(r.Caches, m.Source)) {
			return palyra.Errorf(palyra.Denied, palyra.ReasonBadProfile, "%s would be writable, and is not a cache that Palyra keeps", show(m.Source)).
				WithRemedy("make it a cache of the profile, or mount it read-only")
		}
	}
	return nil
}

func within(dir, path string) bool {
	return path == filepath.Clean(path) && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/"))
}

// unresolved says why a plan that once resolved does not any more.
func unresolved(ctx context.Context, p palyra.Plan, err error) error {
	if ctx.Err() != nil {
		return stopped(ctx, p, err)
	}
	switch e := palyra.AsError(err); e.Code {
	case palyra.Internal, palyra.Unavailable, palyra.Exhausted: // says nothing about the plan
		return err
	default:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the plan no longer holds: %s", e.Text).WithRemedy(again).WithCause(err)
	}
}

// stopped tells a launch that the context ended from one that failed.
func stopped(ctx context.Context, p palyra.Plan, err error) error {
	switch {
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timedOut(p).WithCause(err)
	}
	return cancelled().WithCause(err)
}

func timedOut(p palyra.Plan) *palyra.Error {
	return palyra.Errorf(palyra.Expired, palyra.ReasonTimedOut, "the call ran into its time limit of %d ms", p.Limits.WallMS).
		WithRemedy("ask for less at once; the most that a call may have is tool_call.execution_timeout_ms, which an operator can raise")
}

func cancelled() *palyra.Error {
	return palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "the call was cancelled").WithRemedy("propose it again if it is still wanted")
}

func planChanged(what []string) *palyra.Error {
	text := "the call resolves to another plan than the one that was judged"
	if len(what) > 0 {
		text = "changed since the plan was judged: " + some(what)
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "%s", text).WithRemedy(again)
}

func executableChanged(path string, cause error) error {
	return planChanged([]string{"the executable " + show(path)}).WithCause(cause)
}

// changes names what differs between the plan that was judged and the one that
// would run now, most telling first.
func changes(judged, now palyra.Plan) []string {
	var what []string
	note := func(differs bool, name string) {
		if differs {
			what = append(what, name)
		}
	}
	was, is := judged.Executable, now.Executable
	note(was.Path != is.Path || was.Digest != is.Digest, "the executable "+show(is.Path))
	note(was.Path == is.Path && was.Digest == is.Digest && was.Sealed != is.Sealed, "who may write the executable "+show(is.Path))
	what = append(what, inputs(judged.Inputs, now.Inputs)...)
	note(!slices.Equal(judged.Links, now.Links), "the links that lead to its inputs")
	note(!slices.Equal(judged.Argv, now.Argv), "the program's arguments")
	note(judged.Cwd != now.Cwd, "the working directory")
	if names := variables(judged.Env, now.Env); len(names) > 0 {
		what = append(what, "the environment ("+some(names)+")")
	}
	note(judged.Stdin != now.Stdin, "stdin")
	note(judged.Staging != now.Staging, "where it writes")
	note(judged.Terminal != now.Terminal, "the terminal")
	note(judged.Workspace != now.Workspace, "the workspace")
	note(judged.Tier != now.Tier, "the tier")
	note(judged.Limits != now.Limits, "the limits")
	note(!sameEnforcement(judged.Enforcement, now.Enforcement), "what the tier enforces")
	note(!slices.Equal(judged.Egress, now.Egress), "the hosts it may reach")
	note(!slices.Equal(judged.Bindings, now.Bindings), "the secrets it gets")
	note(judged.Profile != now.Profile || !slices.Equal(judged.Mounts, now.Mounts) || !slices.Equal(judged.Files, now.Files), "the directories it sees")
	note(!slices.Equal(judged.Seals, now.Seals), "the paths that are sealed")
	note(judged.UnixSockets != now.UnixSockets || judged.AgentSocket != now.AgentSocket, "the sockets it may use")
	note(!slices.Equal(judged.AgentWithin, now.AgentWithin), "the workspaces that the agent reaches")
	note(!slices.Equal(judged.Reads, now.Reads) || !slices.Equal(judged.Writes, now.Writes), "the files it names")
	return what
}

// inputs returns the paths of bound files that are not as they were.
func inputs(was, is []palyra.Input) []string {
	var paths []string
	for _, in := range is {
		if !slices.Contains(was, in) {
			paths = append(paths, show(in.Path))
		}
	}
	for _, in := range was { // no longer read at all
		if !slices.ContainsFunc(is, func(n palyra.Input) bool { return n.Path == in.Path }) {
			paths = append(paths, show(in.Path))
		}
	}
	return paths
}

// variables returns the names of variables that are not as they were.
func variables(was, is []palyra.EnvVar) []string {
	var names []string
	for _, v := range slices.Concat(is, was) {
		if slices.Contains(was, v) && slices.Contains(is, v) {
			continue
		}
		if name := show(v.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func sameEnforcement(a, b palyra.Enforcement) bool {
	return a.Mode == b.Mode && slices.Equal(a.Mechanisms, b.Mechanisms) && maps.Equal(a.Limits, b.Limits)
}

// without is a promise but for some mechanisms.
func without(e palyra.Enforcement, names ...string) palyra.Enforcement {
	e.Mechanisms = slices.DeleteFunc(slices.Clone(e.Mechanisms), func(m string) bool { return slices.Contains(names, m) })
	return e
}

// missing names what was promised and does not hold. More than was promised is
// fine.
func missing(promised, held palyra.Enforcement) []string {
	var what []string
	if promised.Mode != held.Mode {
		what = append(what, "network "+promised.Mode)
	}
	for _, m := range promised.Mechanisms {
		if !slices.Contains(held.Mechanisms, m) {
			what = append(what, m)
		}
	}
	for _, l := range slices.Sorted(maps.Keys(promised.Limits)) {
		if !atLeast(held.Limits[l], promised.Limits[l]) {
			what = append(what, fmt.Sprintf("%s by %s", l, promised.Limits[l]))
		}
	}
	return what
}

// strength orders the ways to keep a limit. One that is not here is as good as
// itself only.
var strength = map[string]int{"none": 1, "polled": 2, "rlimit": 3, "rlimit+polled": 4, "cgroup": 5}

// atLeast reports whether a limit is kept as well as was promised.
func atLeast(held, promised string) bool {
	return held == promised || strength[promised] > 0 && strength[held] >= strength[promised]
}

// some joins the first few of a list and counts the rest.
func some(what []string) string {
	const shown = 4
	s := strings.Join(what[:min(shown, len(what))], ", ")
	if n := len(what) - shown; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// show quotes a name where it has anything that does not show as itself.
func show(name string) string {
	name = palyra.Clip(name, 256)
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
