package inforce

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/policy"
)

// ownerPowers are the actions that some owner must always be permitted, or nobody could repair anything.
var ownerPowers = []struct{ action, resource, id, lost, rule string }{
	{"approval.decide", "Approval", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "no owner could answer approvals any more", "deciders"},
	{string(palyra.PermitPolicyWrite), "Policy", TheBundle, "no owner could change policy any more", "policy-writers"},
}

// TheBundle is the id of the policies in force, as a resource.
const TheBundle = "bundle"

// Loss is something that no owner could do any more. Text names the policies that
// take it away; Remedy says what to do about that.
type Loss struct{ Text, Remedy string }

// Lost says what no owner could do any more if c judged; it is empty when owners keep all their powers.
func Lost(ctx context.Context, c policy.Config, owners []palyra.Principal) ([]Loss, error) {
	e, err := policy.New(c)
	if err != nil {
		return nil, err
	}
	var lost []Loss
	for _, say := range ownerPowers {
		kept := false
		var by []string
		for _, o := range owners {
			ok, hits := e.AuthorizeAction(ctx, o, []palyra.Role{palyra.RoleOwner}, say.action, say.resource, say.id)
			kept = kept || ok
			for _, h := range hits {
				by = append(by, fmt.Sprintf("%s (%s:%d)", h.ID, h.File, h.Line))
			}
		}
		if kept {
			continue
		}
		loss := Loss{Text: say.lost + ", since nothing permits it", Remedy: "keep the rule '" + say.rule + "' or one like it"}
		if by = slices.Compact(slices.Sorted(slices.Values(by))); len(by) > 0 {
			names := strings.Join(by[:min(len(by), maxNamed)], ", ")
			loss = Loss{Text: say.lost + ", because of " + names, Remedy: "let owners out of " + names}
		}
		lost = append(lost, loss)
	}
	return lost, nil
}

// LockedOut says that a principal who may change policy now could not change it any more if c judged; it is
// empty when they could.
func LockedOut(ctx context.Context, c policy.Config, p palyra.Principal, role palyra.Role) ([]Loss, error) {
	e, err := policy.New(c)
	if err != nil {
		return nil, err
	}
	ok, hits := e.AuthorizeAction(ctx, p, []palyra.Role{role}, string(palyra.PermitPolicyWrite), "Policy", TheBundle)
	if ok {
		return nil, nil
	}
	loss := Loss{Text: fmt.Sprintf("%s, who applies it, could not change policy any more", p), Remedy: "let another owner apply it who can"}
	for i, h := range hits {
		if i == maxNamed {
			break
		}
		loss.Text += fmt.Sprintf(", because of %s (%s:%d)", h.ID, h.File, h.Line)
	}
	return []Loss{loss}, nil
}

// maxNamed bounds how many policies a text names.
const maxNamed = 4
