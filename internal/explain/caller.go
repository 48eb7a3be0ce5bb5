package explain

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/commandagent"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
)

// checkCaller refuses to imagine a call of somebody who cannot make calls: the answer would be about nobody.
func (p *Explainer) checkCaller(ctx context.Context, who palyra.Principal) error {
	if err := policy.CheckPrincipal(who); err != nil {
		return err
	}
	person := cmp.Or(commandOwner(who), who)
	switch person.Kind() {
	case "user":
		u, err := p.Access.User(ctx, person)
		if palyra.CodeOf(err) != palyra.NotFound && (err != nil || u.RemovedAt.IsZero()) {
			return err
		}
	case "agent":
		agents, err := p.agents(ctx)
		if err != nil {
			return err
		}
		for _, a := range agents {
			if a.Principal == who && a.RemovedAt.IsZero() {
				return nil
			}
		}
	default:
		return nil // neither devices nor the daemon's own parts propose; what policy says of them is a fair question
	}
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "%s is not known here, or was removed", palyra.Clip(string(who), 128)).
		WithRemedy("name one of 'palyra access user list' or 'palyra access agent list'")
}

// agents are all agents that were ever known, the local one first.
func (p *Explainer) agents(ctx context.Context) ([]palyra.Agent, error) {
	all, err := p.Access.Agents(ctx)
	if local, failed := p.Access.LocalAgent(ctx); failed == nil {
		all = append([]palyra.Agent{local}, all...)
	}
	return all, err
}

// commandOwner is the person whose own commands an agent stands for; empty for any other agent.
func commandOwner(agent palyra.Principal) palyra.Principal {
	if !commandagent.Is(agent) {
		return ""
	}
	return palyra.Principal("user:" + strings.TrimPrefix(agent.Name(), commandagent.Prefix))
}

// standing fills in what the daemon would know of an imagined call: whose agent it is, and what its session
// has done.
func (p *Explainer) standing(ctx context.Context, prop palyra.Proposal) palyra.Proposal {
	if prop.Owner == "" && prop.Principal.Kind() == "agent" {
		prop.Owner = p.owner(ctx, prop.Principal)
	}
	if s, ok, err := p.Sessions.Peek(ctx, prop); err == nil && ok {
		prop.Session, prop.Labels = s.ID, s.Labels
	}
	return prop
}

// owner returns whose agent a principal is; empty when that is not known.
func (p *Explainer) owner(ctx context.Context, agent palyra.Principal) palyra.Principal {
	if person := commandOwner(agent); person != "" {
		return person
	}
	all, err := p.agents(ctx)
	if err != nil {
		return ""
	}
	for _, a := range all {
		if a.Principal == agent && a.RemovedAt.IsZero() {
			return a.Owner
		}
	}
	return ""
}

// maxCovering bounds how many leases of other sessions are looked at.
const maxCovering = 100

// noteLease notes that a live lease would answer the question, so that nobody would be asked: in the call's
// own session, or in another one that would have to be named. On an error nothing is noted, since people are
// then asked.
func (p *Explainer) noteLease(ctx context.Context, c *palyra.Call, e *wire.Explanation) {
	asked := *c
	asked.Verdict = e.Verdict
	if d, ok, err := p.Desk.Cover(ctx, &asked); err == nil && ok && (asked.Proposal.Session != "" || d.Terms.Session == "") {
		where := "in session " + string(asked.Proposal.Session)
		if d.Terms.Group != "" {
			where = fmt.Sprintf("as one of the group %s from %s", d.Terms.Group, d.Terms.Workspace)
		}
		e.Layer = ""
		e.Remedy = fmt.Sprintf("nothing: lease %s by %s covers it %s, so nobody would be asked", d.Lease, d.By, where)
		return
	}
	if group, alone := p.Desk.GroupOf(&asked); alone {
		e.Remedy = fmt.Sprintf("all it reaches is of the group %s, which the answer allow-group is for; or %s", group, e.Remedy)
	}
	live, err := p.Desk.Leases(ctx, palyra.LeaseFilter{Principal: c.Proposal.Principal, Limit: maxCovering})
	if err != nil {
		return
	}
	for _, l := range live.Leases {
		asked.Proposal.Session = l.Terms.Session
		if d, ok, err := p.Desk.Cover(ctx, &asked); l.Terms.Session != "" && err == nil && ok {
			e.Remedy = fmt.Sprintf("propose it in session %s (--session), where lease %s by %s covers it; or %s", l.Terms.Session, d.Lease,
				d.By, e.Remedy)
			return
		}
	}
}
