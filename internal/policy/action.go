package policy

import (
	"context"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// AuthorizeAction says whether policy permits an action other than a call, such as approval.decide on an
// Approval, and which policies said so. Doors ask it after the access registry has agreed; roles are the
// principal's, from that registry. An action that the schema does not know is not permitted, and no action is
// while a policy fails to evaluate.
func (e *Engine) AuthorizeAction(_ context.Context, p palyra.Principal, roles []palyra.Role, action, resourceType,
	resourceID string,
) (bool, []palyra.PolicyHit) {
	s := e.live.Load()
	uid, err := PrincipalUID(p)
	if err != nil {
		return false, nil
	}
	do := pair{actionUID(action), cedar.NewEntityUID(cedar.EntityType(resourceType), cedar.String(resourceID))}
	c := &judgement{
		state: s, principal: uid, action: true,
		world: world{
			own:     append(s.bundle.principalEntities(uid, "", palyra.Standing{Roles: roles}), namedEntity(do.resource)),
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
