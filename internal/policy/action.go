package policy

import (
	"context"
	"slices"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy/resource"
)

// AuthorizeAction says whether policy permits an action other than a call, such as approval.decide on an
// Approval, and which policies said so. Doors ask it after the access registry has agreed; roles are the
// principal's, from that registry. An action that the schema does not know is not permitted, and no action is
// while a policy fails to evaluate. The id of a Secret is that of resource.Named.
func (e *Engine) AuthorizeAction(_ context.Context, p palyra.Principal, roles []palyra.Role, action, resourceType,
	resourceID string,
) (bool, []palyra.PolicyHit) {
	s := e.live.Load()
	uid, err := PrincipalUID(p)
	if err != nil {
		return false, nil
	}
	about := resource.Named(resourceType, resourceID)
	do := pair{actionUID(action), about.UID}
	c := &judgement{
		state: s, principal: uid, action: true,
		world: world{
			own:     append(slices.Clone(s.caller(uid, "", palyra.Standing{Roles: roles}).Entities), about),
			actions: s.bundle.actions,
		},
	}
	req := cedar.Request{Principal: uid, Action: do.action, Resource: do.resource, Context: c.context(answer{})}
	if s.bundle.valid.Request(req) != nil {
		return false, nil
	}
	r := c.newQuestion(do).final(answer{})
	hits := make([]palyra.PolicyHit, len(r.rules))
	for i, one := range r.rules {
		hits[i] = one.hit
	}
	return r.effect == palyra.Allow, hits
}
