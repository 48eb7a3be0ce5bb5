package policy

import (
	"net"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy/entity"
	"palyra/internal/policy/resource"
	"palyra/internal/policy/risk"
)

// judgement is one request under judgement. Entities and context are built once;
// only the approval differs between evaluations.
type judgement struct {
	*state
	request   palyra.Request
	action    bool // it is an action other than a call, which has no plan
	principal cedar.EntityUID
	caller    *entity.Caller // nil, as the tool: the request is none of a call
	tool      *entity.Callee
	labels    entity.Labels
	world     world
	few       [5]cedar.Entity // room for the world's own
	pairs     []pair
	risk      palyra.Risk
	words     palyra.Command // what its words tell
	standing  palyra.Standing
	found     risk.Findings
	egress    []Host
	values    [64]cedar.Value // of attributes, as far as they were asked for
	made      attrs           // those
	resource  cedar.EntityUID // that policies are asked about
	approval  cedar.Value     // that they are asked about; nil: any
	view      view            // the first part of the context that was made
	viewed    cedar.Record
	views     map[view]cedar.Record // the others
	asked     rules                 // that Cedar is asked about, one time after the other
	trace     []Rung
	tracing   bool
}

// newCall builds everything policy looks at. An error means that the request
// cannot be put into policy's terms, and so cannot be judged.
func (s *state) newCall(r palyra.Request) (*judgement, error) {
	c := new(judgement)
	return c, s.take(c, r)
}

// take puts a request into a judgement that has none yet.
func (s *state) take(c *judgement, r palyra.Request) error {
	uid, err := PrincipalUID(r.Principal)
	if err != nil {
		return err
	}
	if s, err = s.withProject(r.Plan); err != nil {
		return err
	}
	if r.Tool.Name == "" || r.Tool.Name != r.Plan.Tool {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonPolicyError, "policy: the plan is not one of the tool")
	}
	egress, err := HostsOf(r.Plan.Egress)
	if err != nil {
		return err
	}
	standing, err := s.standingOf(r)
	if err != nil {
		return err
	}
	f, command := risk.Examine(r), s.analyse(r.Plan)
	f.Command(command, r.Plan)
	f.Effects(r.Effects)
	c.state, c.request, c.principal, c.risk, c.words, c.standing, c.found, c.egress = s, r, uid, f.Risk(), command, standing, f, egress
	c.caller, c.tool, c.labels = s.caller(uid, r.Owner, standing), s.tool(r.Tool, f.Capabilities), s.memory.Labels(r.Labels)
	c.pairs = pairsOf(r, f.Capabilities, c.tool.Entity.UID)
	c.world.actions = s.bundle.actions
	c.world.own = append(append(c.few[:0], c.caller.Entities...), c.tool.Entity,
		cedar.Entity{UID: sessionUID(r.Session), Attributes: c.labels.Record})
	for _, p := range c.pairs {
		if p.resource.Type == "Secret" {
			bound, err := resource.Bound(string(p.resource.ID), r.Plan)
			if err != nil {
				return err
			}
			c.world.own = append(c.world.own, bound)
		}
	}
	if at := r.Plan.Workspace.Path; at != "" {
		c.world.own = append(c.world.own, s.memory.Place(at))
	}
	return nil
}

// standingOf returns what is known of the caller: the request's own record of it, which is what was known
// when it was judged first, else what is known now.
func (s *state) standingOf(r palyra.Request) (palyra.Standing, error) {
	switch {
	case r.Standing != nil:
		return *r.Standing, nil
	case s.standing == nil:
		return palyra.Standing{}, nil
	}
	st, err := s.standing(r.Principal, r.Owner)
	if err != nil {
		err = palyra.Errorf(palyra.Unavailable, palyra.ReasonPolicyError, "policy: the roles of %s cannot be read",
			palyra.Clip(string(r.Principal), 64)).WithCause(err)
	}
	return st, err
}

// budget returns how many calls the run may make.
func (s *state) budget(r palyra.Request) int64 {
	if r.CallsMax > 0 {
		return min(r.CallsMax, s.snapshot.MaxCallsPerRun)
	}
	return s.snapshot.MaxCallsPerRun
}

// withTime gives the present time to a request that has none. A replay asks without a time: its report must
// not depend on when it is run.
func (s *state) withTime(r palyra.Request) palyra.Request {
	if r.At.IsZero() && s.now != nil {
		r.At = s.now()
	}
	return r
}

// Host is one place a plan connects to.
type Host struct {
	Name string
	Port int64
}

// HostsOf reads host:port entries. An entry that cannot be read cannot be judged and is an error.
func HostsOf(list []string) ([]Host, error) {
	out := make([]Host, 0, len(list))
	for _, s := range list {
		name, port, err := net.SplitHostPort(s)
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || name == "" || n == 0 {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonPolicyError, "policy: %q is not host:port", palyra.Clip(s, 64))
		}
		out = append(out, Host{name, int64(n)})
	}
	return out, nil
}
