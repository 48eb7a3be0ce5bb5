package sandbox

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/sandbox/cage"
	"palyra/internal/subpath"
	"palyra/secrets"
)

// check returns the backend when the launch is real, is for this call, and the tier still holds what it promised.
func (r *Runner) check(ctx context.Context, start palyra.Launch, c *palyra.Call) (Backend, error) {
	if err := start.For(c); err != nil {
		return nil, err
	}
	plan := start.Plan()
	b, err := r.backend(plan.Tier)
	if err != nil {
		return nil, err
	}
	if err := r.runnable(plan, b); err != nil {
		return nil, err
	}
	held, err := b.Probe(ctx, plan.Limits)
	if err == nil {
		err = r.probed(plan.Tier)
	}
	if err != nil {
		return nil, plan.Stopped(ctx, err)
	}
	if lacks := r.lacks(plan, b, held); len(lacks) > 0 {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "less would hold than the plan promises: %s",
			fewNames(lacks)).
			WithRemedy("propose the call anew: it is then judged by what holds now")
	}
	return b, nil
}

// lacks names what a plan promises and does not hold before it runs. What is laid out for the one run comes later.
func (r *Runner) lacks(p palyra.Plan, b Backend, held palyra.Enforcement) []string {
	later := slices.Concat(r.byUs(), secrets.LentMechanisms(p.Enforcement.Mechanisms), cage.Own(p.Enforcement.Mechanisms))
	return Lacks(withoutMechanisms(p.Enforcement, later...), r.ours(b, held))
}

// runnable refuses a plan that no native run can honour, before anything else is checked.
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
	case p.Cwd != filepath.Clean(p.Cwd) || !subpath.Within(p.Workspace.Path, p.Cwd):
		return bad("its working directory is not in the workspace")
	case strings.ContainsRune(strings.Join(p.Argv, ""), 0):
		return bad("an argument has a NUL byte")
	case p.Enforcement.Mode == "":
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "the plan does not name the mechanisms of its tier")
	case len(p.Egress) > 0 && (!walled(b) || r.Guard == nil):
		return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "a run in tier %s has no network", p.Tier).
			WithRemedy("propose the call without egress, or in tier c")
	case len(p.Bindings)+len(p.Signers) > 0 && (!walled(b) || r.Guard == nil):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "no secret can be lent to a run in tier %s", p.Tier).
			WithRemedy("propose the call without bindings, or in tier c")
	case p.AgentSocket && (!walled(b) || r.Agents == nil):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "tier %s has no door for agents", p.Tier).
			WithRemedy("propose the call in tier c")
	case len(p.Publish) > 0 && (!walled(b) || r.Ports == nil || !p.Background()):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonPortDenied, "a run in tier %s cannot publish ports", p.Tier).
			WithRemedy("propose the call in tier c, or without publish")
	case p.Source == palyra.SourceSkill && (!walled(b) || r.Cage == nil || !cage.Needed(p)):
		return bad("nothing would hold the script to what its skill was granted")
	case p.Staging.Own() && (!walled(b) || p.Terminal || p.Stdin == palyra.StdinLive || p.AgentSocket || p.UnixSockets):
		return bad("what it writes cannot be kept apart")
	case p.Staging.Staged() && (!walled(b) || p.Staging.Review && !p.AgentSocket):
		return bad("what it writes cannot be kept apart")
	case !walled(b) && (len(p.Mounts)+len(p.Files)+len(p.Seals) > 0 || p.Profile != "" || p.UnixSockets):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "tier %s has no profiles and no mounts", p.Tier).
			WithRemedy("propose the call without a profile, or in tier c")
	}
	return r.mountable(p)
}

// mountable refuses writable mounts other than caches of the run's own workspace, which the daemon keeps for it.
func (r *Runner) mountable(p palyra.Plan) error {
	for _, m := range p.Mounts {
		if m.Writable && (m.Source != filepath.Clean(m.Source) || !subpath.Below(r.Caches, m.Source)) {
			return palyra.Errorf(palyra.Denied, palyra.ReasonBadProfile, "%s would be writable, and is not a cache that Palyra keeps",
				show(m.Source)).
				WithRemedy("make it a cache of the profile, or mount it read-only")
		}
	}
	return nil
}

func executableChanged(path string, cause error) error {
	return palyra.PlanChanged("the executable " + show(path)).WithCause(cause)
}

// withoutMechanisms is a promise without some mechanisms.
func withoutMechanisms(e palyra.Enforcement, names ...string) palyra.Enforcement {
	e.Mechanisms = slices.DeleteFunc(slices.Clone(e.Mechanisms), func(m string) bool { return slices.Contains(names, m) })
	return e
}

// fewNames joins the first few of a list and counts the rest.
func fewNames(what []string) string {
	const shown = 4
	s := strings.Join(what[:min(shown, len(what))], ", ")
	if n := len(what) - shown; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// show quotes a name with misleading characters.
func show(name string) string {
	name = palyra.Clip(name, 256)
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
