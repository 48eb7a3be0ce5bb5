package tiers

import (
	"context"
	"time"

	"palyra"
	"palyra/internal/effects"
)

// Lists keeps the lists of what runs changed.
type Lists interface {
	Keep(ctx context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error)
}

// Settle keeps or drops what a call's run left on its stage.
func (t *Tiers) Settle(_ context.Context, c *palyra.Call, _ bool) palyra.Result {
	f := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.NotFound, palyra.ReasonEffectsLost, "call %s has nothing on a stage", c.ID))
	return palyra.Result{Effects: palyra.EffectsLost, Failure: &f}
}

// listWithin is how long keeping a list may take: whoever called may be gone.
const listWithin = 30 * time.Second

// listChanges keeps the list of what a run changed and says in short what is in it. A
// list that cannot be kept is counted and attested all the same: the call has run.
func (t *Tiers) listChanges(ctx context.Context, c *palyra.Call, res *palyra.Result) {
	if len(res.Changes) == 0 || t.Lists == nil {
		return
	}
	e, text, err := effects.List(res.Changes)
	if err != nil {
		t.Log.Error("what a run changed cannot be listed", "call", c.ID, "err", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listWithin)
	defer cancel()
	if e.List, err = t.Lists.Keep(ctx, c.Proposal.Session, c.ID, text); err != nil {
		t.Log.Error("the list of what a run changed cannot be kept", "call", c.ID, "err", err)
		e.List = ""
	}
	res.Listed = &e
}
