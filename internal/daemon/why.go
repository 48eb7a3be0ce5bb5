package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
)

// whyTime bounds one explanation: the changes that it tries are many.
const whyTime = 5 * time.Second

// Explain says why a call is answered as it is, and what would turn that: a call on
// record with what became of it, an imagined one as it would resolve now. Nothing
// runs and nothing is recorded.
func (p policyPart) Explain(ctx context.Context, id palyra.ID, prop palyra.Proposal) (wire.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, whyTime)
	defer cancel()
	if id != "" {
		call, err := p.onRecord(ctx, id)
		if err != nil {
			return wire.Explanation{}, err
		}
		return p.recorded(ctx, call)
	}
	call := &palyra.Call{Proposal: p.standing(ctx, prop)}
	if err := p.imagine(ctx, call); err != nil {
		return p.turnedAway(ctx, call, err)
	}
	return p.imagined(ctx, call)
}

// onRecord finds a call by its own id, or by that of its approval or attestation.
func (p policyPart) onRecord(ctx context.Context, id palyra.ID) (*palyra.Call, error) {
	call, err := p.d.path.ledger.Get(ctx, id)
	if palyra.CodeOf(err) != palyra.NotFound {
		return call, err
	}
	of := palyra.ID("")
	if a, err := p.d.desk.Get(ctx, id); err == nil {
		of = a.Call
	} else if palyra.CodeOf(err) != palyra.NotFound {
		return nil, err
	}
	if of == "" {
		if att, err := p.d.attester.Get(ctx, string(id)); err == nil {
			of = att.Call
		} else if palyra.CodeOf(err) != palyra.NotFound {
			return nil, err
		}
	}
	if of == "" {
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no call, approval or attestation %q", palyra.Clip(string(id), 80)).
			WithRemedy("see 'palyra calls list' or 'palyra approvals list'; a call that is only thought of goes after --")
	}
	return p.d.path.ledger.Get(ctx, of)
}

// standing fills in what a door would know of an imagined call: whose agent it is,
// and what its session has done.
func (p policyPart) standing(ctx context.Context, prop palyra.Proposal) palyra.Proposal {
	prop.PeerUID = int64(os.Geteuid())
	if prop.Owner == "" && prop.Principal.Kind() == "agent" {
		prop.Owner = p.owner(ctx, prop.Principal)
	}
	if s, ok, err := p.d.sessions.Peek(ctx, prop); err == nil && ok {
		prop.Session, prop.Labels = s.ID, s.Labels
	}
	return prop
}

// owner is whose agent a principal is; empty: nobody knows.
func (p policyPart) owner(ctx context.Context, agent palyra.Principal) palyra.Principal {
	if local, err := p.d.access.LocalAgent(ctx); err == nil && local.Principal == agent {
		return local.Owner
	}
	all, err := p.d.access.Agents(ctx)
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

// imagine takes a call as far as policy. A call without a tool was turned away by
// the catalog, any other by the planner.
func (p policyPart) imagine(ctx context.Context, c *palyra.Call) (err error) {
	c.Tool = palyra.Tool{}
	if c.Tool, err = p.d.path.catalog.Admit(ctx, c.Proposal); err != nil {
		c.Tool = palyra.Tool{}
		return err
	}
	if c.Plan, err = p.d.path.planner.Resolve(ctx, c); err != nil {
		return err
	}
	c.Digest, err = c.Plan.Digest()
	return err
}

// request is a call as policy judges it, before anybody answers.
func request(c *palyra.Call) palyra.Request {
	p := c.Proposal
	return palyra.Request{
		Principal: p.Principal, Owner: p.Owner, Call: c.ID, Session: p.Session, Run: p.Run, Parent: p.Parent, Door: p.Door,
		Tool: c.Tool, Plan: c.Plan, Labels: p.Labels, CallsUsed: p.CallsUsed,
	}
}

// imagined explains a call that policy would be asked about.
func (p policyPart) imagined(ctx context.Context, c *palyra.Call) (wire.Explanation, error) {
	why := p.d.policy.Why(ctx, request(c))
	e, err := explained(c, why)
	if err != nil {
		return e, err
	}
	e.Verdict = why.Answer()
	e.Layer, e.Reason, e.Remedy, e.ReasonCode = why.Layer, why.Reason, why.Remedy, reasonOf(e.Verdict)
	e.Flips = p.flips(ctx, c, why)
	e.Lines = []string{why.Reason, why.Remedy}
	if why.Verdict == palyra.Ask {
		e.Lines = append(e.Lines, p.covered(ctx, c, e.Verdict)...)
	}
	return e, nil
}

// reasonOf is the reason code that a refusal by the verdict would have.
func reasonOf(v palyra.Verdict) palyra.Reason {
	switch {
	case v.Effect != palyra.Deny:
		return ""
	case len(v.Errors) > 0:
		return palyra.ReasonPolicyError
	}
	return palyra.ReasonPolicyDenied
}

// explained is what every explanation of a judged call has.
func explained(c *palyra.Call, why policy.Explanation) (wire.Explanation, error) {
	detail, err := json.Marshal(why)
	if err != nil {
		return wire.Explanation{}, fmt.Errorf("daemon: why: %w", err)
	}
	return wire.Explanation{Call: c.ID, Plan: c.Plan, PlanDigest: c.Digest, Approval: c.Approval, Detail: detail}, nil
}

// turnedAway explains an imagined call that policy would not even see. What is not
// the call's fault is an error.
func (p policyPart) turnedAway(ctx context.Context, c *palyra.Call, err error) (wire.Explanation, error) {
	if code := palyra.CodeOf(err); code == palyra.Internal || ctx.Err() != nil {
		return wire.Explanation{}, err
	}
	layer := palyra.LayerPlan
	if c.Tool.Name == "" {
		layer = palyra.LayerCatalog
	}
	r := palyra.RefusalOf(layer, err)
	return wire.Explanation{
		Plan: c.Plan, Layer: r.Layer, ReasonCode: r.Reason, Reason: r.Text, Remedy: r.Remedy,
		Verdict: palyra.Verdict{Effect: palyra.Deny, Reason: r.Text, Remedy: r.Remedy},
		Lines:   []string{r.Text, r.Remedy}, Flips: p.otherwise(ctx, c, r.Reason, palyra.Deny),
	}, nil
}

// covered says that a live grant would answer the question. What cannot be found
// out is not said: people are then asked.
func (p policyPart) covered(ctx context.Context, call *palyra.Call, v palyra.Verdict) []string {
	if call.Proposal.Session == "" || v.Need.Fresh {
		return nil
	}
	asked := *call
	asked.Verdict = v
	d, ok, err := p.d.desk.Cover(ctx, &asked)
	if err != nil || !ok {
		return nil
	}
	return []string{fmt.Sprintf("grant %s covers it in session %s: nobody would be asked", d.Lease, call.Proposal.Session)}
}
