package process

import (
	"context"
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
)

// fill sets the parts of the plan that follow from the arguments, the configuration, the profile
// and the tier. It returns the directories in which commands are looked up.
func (d *Driver) fill(ctx context.Context, a arguments, p *palyra.Plan) (lookup []string, err error) {
	p.ReadOnly = false // any program may write
	p.Tier = a.tier(d.Tier)
	p.Argv = a.argv()
	if p.Limits, err = a.lower(d.most(*p)); err != nil {
		return nil, err
	}
	if p.Enforcement, err = d.promise(ctx, p.Tier, p.Limits); err != nil {
		return nil, err
	}
	if err := a.needsRoom(p.Tier); err != nil {
		return nil, err
	}
	if a.RequireLimits {
		if err := held(p.Tier, p.Enforcement.Limits); err != nil {
			return nil, err
		}
	}
	room, err := d.room(a, *p)
	if err != nil {
		return nil, err
	}
	if p.AgentSocket = a.AgentSocket; p.AgentSocket {
		room, p.AgentWithin = d.agent(room), a.AgentWithin
		if p.Limits.WallMS == d.Wall && d.AgentWall > d.Wall { // neither call nor caller asked for less
			p.Limits.WallMS = d.AgentWall
		}
	}
	lookup = uniqueNames(slices.Concat(room.Path, d.Path))
	if p.Env, err = a.environment(lookup, room); err != nil {
		return nil, err
	}
	if err := fits(p.Argv, p.Env); err != nil {
		return nil, err
	}
	if err := d.furnish(room, a, p); err != nil {
		return nil, err
	}
	p.Stdin, err = a.input()
	p.Terminal = a.Terminal != nil
	return lookup, err
}

// uniqueNames keeps the first of equal names, as later ones are never reached.
func uniqueNames(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// promise asks the tier what it enforces, and copies its answer.
func (d *Driver) promise(ctx context.Context, t palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	e, err := d.Tiers.Promise(ctx, t, l)
	if err != nil {
		return palyra.Enforcement{}, err
	}
	e.Mechanisms, e.Limits = slices.Clone(e.Mechanisms), maps.Clone(e.Limits)
	return e, nil
}

// held refuses a tier in which the kernel does not limit the memory and the processes of a run as a
// whole: looking from time to time is not enough.
func held(t palyra.Tier, limits map[string]palyra.Hold) error {
	for _, l := range []struct {
		name string
		by   []string
	}{{"memory", []string{"cgroup"}}, {"processes", []string{"cgroup", "rlimit"}}} {
		how := strings.Split(string(limits[l.name]), "+")
		if !slices.ContainsFunc(how, func(h string) bool { return slices.Contains(l.by, h) }) {
			return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "the call requires held limits, and the %s of tier %s %s here",
				l.name, t, weakly(l.name, limits[l.name])).
				WithRemedy("let the daemon have a cgroup (see 'palyra sandbox doctor'), or call without require_limits")
		}
	}
	return nil
}

// weakly describes a limit that is not enforced well enough.
func weakly(name string, how palyra.Hold) string {
	is := "is"
	if name == "processes" {
		is = "are"
	}
	switch how {
	case "", palyra.HoldNone:
		return is + " not limited"
	case palyra.HoldPolled:
		return is + " only counted now and then (polled)"
	}
	return is + " only held by " + show.Line(string(how))
}
