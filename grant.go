package palyra

import "time"

// Grant is the only thing a runner accepts. Its fields are closed and NewGrant is the only maker, so no code path can
// run a plan that was not judged and, where policy asks, answered.
type Grant struct {
	id       GrantID
	call     CallID
	plan     Plan
	digest   Digest
	verdict  Verdict
	decision Decision
	made     time.Time
}

// NewGrant derives a grant from a judged call. It refuses what is not Permitted, and a call that its caller wants to
// run itself, asked about or only observed: nobody runs that here.
func NewGrant(id GrantID, c *Call, now time.Time) (Grant, error) {
	switch {
	case id == "":
		return Grant{}, Errorf(Denied, ReasonInternal, "no grant: an id is missing")
	case c.Proposal.Check || c.Proposal.Observe || c.Plan.Tier == TierUnsandboxed:
		return Grant{}, Errorf(Denied, ReasonInternal, "no grant: the call was only to be checked")
	}
	if err := Permitted(c); err != nil {
		return Grant{}, err
	}
	return Grant{id: id, call: c.ID, plan: c.Plan.clone(), digest: c.Digest, verdict: c.Verdict, decision: c.Decision, made: now}, nil
}

// Permitted returns nil for a judged call that policy, and people where policy asks, allow: the digest is the plan's
// own, the verdict allows, and an ask was answered with an allow for this digest or by a lease that covered it.
func Permitted(c *Call) error {
	refuse := func(why string) error { return Errorf(Denied, ReasonInternal, "no grant: %s", why) }
	digest, err := c.Plan.Digest()
	if err != nil {
		return err
	}
	switch {
	case c.ID == "":
		return refuse("an id is missing")
	case digest != c.Digest:
		return refuse("the plan is not the one that was judged")
	case len(c.Verdict.Errors) > 0:
		return refuse("policy could not judge the plan")
	case c.Verdict.Effect != Allow && c.Verdict.Effect != Ask:
		return refuse("policy denies the plan")
	}
	if c.Verdict.Effect == Ask {
		d := c.Decision
		if d.Answer != AnswerAllow {
			return refuse("the question was not answered with allow")
		}
		if d.Lease == "" {
			return refuse("the answer left no lease")
		}
		if !d.Reused && d.Digest != digest {
			return refuse("the approver saw another plan")
		}
	}
	return nil
}

// ID returns the grant's id.
func (g Grant) ID() GrantID { return g.id }

// Call returns the id of the call it is for.
func (g Grant) Call() CallID { return g.call }

// Plan returns the plan it permits.
func (g Grant) Plan() Plan { return g.plan }

// Digest returns the plan digest.
func (g Grant) Digest() Digest { return g.digest }

// Decision returns the answer behind it; zero when policy alone allowed.
func (g Grant) Decision() Decision { return g.decision }

// Valid reports whether g came from NewGrant.
func (g Grant) Valid() bool { return g.id != "" && g.digest != "" }
