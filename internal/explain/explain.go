// Package explain says why a call is answered as it is, and what would turn the answer: of a call on record with
// its end, of an imagined call as it would resolve now. Every change that it names was tried, in the world as it is
// or in one with another setting, or it says why it was not. Nothing runs and nothing is recorded.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/attest"
	"palyra/internal/config"
	"palyra/internal/policy"
	"palyra/internal/profile"
	"palyra/internal/rpc/wire"
	"palyra/internal/session"
	"palyra/internal/workspace"
)

// Config wires an Explainer.
type Config struct {
	Here       World                              // as it is
	With       func(config.Config) (World, error) // the world with other settings
	Calls      func(context.Context, palyra.CallID) (*palyra.Call, error)
	Upstreams  func(context.Context) ([]palyra.Upstream, error) // nil: there are none
	Profiles   func() ([]profile.Info, error)
	Desk       *approval.Desk
	Attester   *attest.Attester
	Access     *access.Registry
	Sessions   *session.Sessions
	Workspaces *workspace.Registry
	Settings   config.Config
	Now        func() time.Time
}

// Explainer explains calls.
type Explainer struct{ Config }

// New returns an Explainer.
func New(c Config) *Explainer { return &Explainer{c} }

// whyTime bounds one explanation: the changes that it tries are many.
const whyTime = 5 * time.Second

// Explain says why a call is answered as it is, and what would turn the answer: a call on record with its
// end, an imagined call as it would resolve now. Nothing runs and nothing is recorded.
func (p *Explainer) Explain(ctx context.Context, id palyra.ID, prop palyra.Proposal) (wire.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, whyTime)
	defer cancel()
	if id != "" {
		call, err := p.onRecord(ctx, id)
		if err == nil && !reaches(prop.Within, call.Plan.Workspace.Path) { // a caller must not learn whose call it is
			err = notOnRecord(id)
		}
		if err != nil {
			return wire.Explanation{}, err
		}
		return p.Recorded(ctx, call)
	}
	if err := p.checkCaller(ctx, prop.Principal); err != nil {
		return wire.Explanation{}, err
	}
	call := &palyra.Call{Proposal: p.standing(ctx, prop)}
	if err := p.imagine(ctx, call); err != nil {
		return p.turnedAway(ctx, call, err)
	}
	return p.imagined(ctx, call)
}

// onRecord finds a call by its own id, or by that of its approval or attestation.
func (p *Explainer) onRecord(ctx context.Context, id palyra.ID) (*palyra.Call, error) {
	call, err := p.Calls(ctx, palyra.CallID(id))
	if palyra.CodeOf(err) != palyra.NotFound {
		return call, err
	}
	of := palyra.CallID("")
	if a, err := p.Desk.Get(ctx, palyra.ApprovalID(id)); err == nil {
		of = a.Call
	} else if palyra.CodeOf(err) != palyra.NotFound {
		return nil, err
	}
	if of == "" {
		if att, err := p.Attester.Get(ctx, string(id)); err == nil {
			of = att.Call
		} else if palyra.CodeOf(err) != palyra.NotFound {
			return nil, err
		}
	}
	if of == "" {
		return nil, notOnRecord(id)
	}
	return p.Calls(ctx, of)
}

func notOnRecord(id palyra.ID) error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no call, approval or attestation %q", palyra.Clip(string(id), 80)).
		WithRemedy("see 'palyra calls list' or 'palyra approvals list'; a call that is only thought of goes after --")
}

// reaches reports whether somebody bound to some workspaces may see calls of this workspace.
func reaches(within []string, workspace string) bool {
	return len(within) == 0 || palyra.Within(workspace, within)
}

// imagined explains a call that policy would be asked about.
func (p *Explainer) imagined(ctx context.Context, c *palyra.Call) (wire.Explanation, error) {
	why := p.Here.Policy.Why(ctx, palyra.RequestOf(c))
	e, err := explained(c, why)
	if err != nil {
		return e, err
	}
	e.Verdict = why.Answer()
	e.Layer, e.Reason, e.Remedy, e.ReasonCode = why.Layer, why.Reason, why.Remedy, reasonOf(e.Verdict)
	e.Flips = p.flips(ctx, c, why)
	if why.Verdict == palyra.Ask {
		p.noteLease(ctx, c, &e)
	}
	e.Lines = []string{e.Reason, e.Remedy}
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

// explained returns the part that every explanation of a judged call has.
func explained(c *palyra.Call, why policy.Explanation) (wire.Explanation, error) {
	detail, err := json.Marshal(why)
	if err != nil {
		return wire.Explanation{}, fmt.Errorf("explain: why: %w", err)
	}
	return wire.Explanation{Call: c.ID, Plan: c.Plan, PlanDigest: c.Digest, Approval: c.Approval, Detail: detail}, nil
}

// turnedAway explains an imagined call that would be refused before policy. A failure that is not the call's
// fault is an error.
func (p *Explainer) turnedAway(ctx context.Context, c *palyra.Call, err error) (wire.Explanation, error) {
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
		Lines:   []string{r.Text, r.Remedy}, Flips: p.tryChanges(ctx, c, r.Reason),
	}, nil
}
