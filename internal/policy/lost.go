package policy

import (
	"context"

	"palyra"
)

// says are what somebody must always be able to do, or nobody can repair
// anything.
var says = []struct{ action, resource, lost string }{
	{"approval.decide", "Approval", "no owner could answer approvals any more"},
	{"policy.write", "Policy", "no owner could change policy any more"},
}

// Lost says what no owner could do any more if c judged; nothing when all is
// well.
func Lost(ctx context.Context, c Config, owners []palyra.Principal) ([]string, error) {
	e, err := New(c)
	if err != nil {
		return nil, err
	}
	var lost []string
	for _, say := range says {
		kept := false
		for _, o := range owners {
			ok, _ := e.AuthorizeAction(ctx, o, []string{string(palyra.RoleOwner)}, say.action, say.resource, "any")
			kept = kept || ok
		}
		if !kept {
			lost = append(lost, say.lost)
		}
	}
	return lost, nil
}
