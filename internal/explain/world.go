package explain

import (
	"context"

	"palyra"
	"palyra/internal/catalog"
	"palyra/internal/plan"
	"palyra/internal/policy"
)

// World is the parts that a call meets before anybody is asked: the catalog, the planner and the judge.
// Besides the real one there are imagined ones, in which a setting is another; nothing ever runs in those.
type World struct {
	Catalog *catalog.Catalog
	Planner *plan.Resolver
	Policy  *policy.Engine
}

// PlanCall takes a call as far as policy. A call that still has no tool was refused by the catalog, any other
// by the planner.
func (w World) PlanCall(ctx context.Context, c *palyra.Call) (err error) {
	if c.Tool, err = w.Catalog.Admit(ctx, c.Proposal); err != nil {
		c.Tool = palyra.Tool{}
		return err
	}
	if c.Plan, err = w.Planner.Resolve(ctx, c); err != nil {
		return err
	}
	if c.Proposal.Check {
		c.Plan = c.Plan.Unsandboxed()
	}
	c.Digest, err = c.Plan.Digest()
	return err
}

// imagine takes a call as far as policy in the world as it is.
func (p *Explainer) imagine(ctx context.Context, c *palyra.Call) error {
	return p.Here.PlanCall(ctx, c)
}
