package run

import (
	"context"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/gate"
)

// Recover settles what an earlier daemon left: what may have run becomes unknown and is never run again by itself;
// what was never granted is refused; an open question stays open. settled tells whether an approval has its answer
// already; those calls go on at once, the others when ApprovalSettled is called.
func (c *Calls) Recover(ctx context.Context, settled func(context.Context, palyra.ApprovalID) (bool, error)) error {
	calls, err := c.ledger.open(ctx, palyra.Proposed, palyra.Judged, palyra.Granted, palyra.Running, palyra.Settling)
	if err != nil {
		return fmt.Errorf("run: recover: %w", err)
	}
	for _, call := range slices.DeleteFunc(calls, heldBack) {
		if err := c.giveUp(ctx, call); err != nil {
			return fmt.Errorf("run: recover %s: %w", call.ID, err)
		}
	}
	asked, err := c.ledger.asked(ctx)
	if err != nil {
		return fmt.Errorf("run: recover: %w", err)
	}
	c.mu.Lock()
	for _, id := range asked {
		c.left[id] = true
	}
	c.mu.Unlock()
	if err := c.orphans(ctx); err != nil {
		return fmt.Errorf("run: recover: %w", err)
	}
	for _, id := range asked {
		if done, err := settled(ctx, id); err != nil {
			return fmt.Errorf("run: recover: %w", err)
		} else if done {
			c.ApprovalSettled(id)
		}
	}
	return nil
}

// orphans withdraws the questions of calls whose parent died with the earlier daemon: nobody waits for the answer. Those
// of calls with masked values go as well: nobody has their arguments any more.
func (c *Calls) orphans(ctx context.Context) error {
	pending, err := c.ledger.open(ctx, palyra.Pending)
	if err != nil {
		return err
	}
	for _, call := range pending {
		if call.Proposal.Parent == "" && !call.Plan.Masked {
			continue
		}
		if err := c.Cancel(ctx, call.ID); err != nil {
			return err
		}
	}
	return nil
}

// Unsettled returns a function that says of which calls it is not on record what became of their changes.
func (c *Calls) Unsettled(ctx context.Context) (func(palyra.CallID) bool, error) {
	calls, err := c.ledger.open(ctx, palyra.Settling)
	return func(id palyra.CallID) bool {
		return slices.ContainsFunc(calls, func(c *palyra.Call) bool { return c.ID == id })
	}, err
}

// giveUp ends a call that an earlier daemon held.
func (c *Calls) giveUp(ctx context.Context, call *palyra.Call) error {
	from := call.State
	var became palyra.Result
	if from.AfterCrash() != palyra.Refused {
		if became = c.cutOff(ctx, call); became.Refusal != nil && became.Refusal.Reason == palyra.ReasonStopping {
			return errStopping
		}
	}
	out := palyra.Outcome{
		Outcome: palyra.OutcomeUnknown, Tool: call.Proposal.Tool, Layer: palyra.LayerJournal, ReasonCode: palyra.ReasonInterrupted,
		Reason: "the daemon died after the call was granted; it may or may not have run", Remedy: "look at the result before proposing it again",
		SessionID: call.Proposal.Session, CallID: call.ID, ApprovalID: call.Approval, GrantID: call.Grant, PlanDigest: call.Digest,
		ExitCode: palyra.ExitUnknown,
	}
	event := palyra.Event(palyra.CallUnknown{Call: call.ID, State: from, Labels: gate.MayLabels(call)})
	if from.AfterCrash() == palyra.Refused {
		out.Outcome, out.ExitCode = palyra.OutcomeRefused, palyra.ExitRefused
		out.Reason = "the daemon died before the call was granted; it did not run"
		event = palyra.CallRefused{
			Call: call.ID, Layer: palyra.LayerJournal, Code: palyra.Unavailable, Reason: palyra.ReasonInterrupted,
			Plan: call.Digest,
		}
	}
	call.State, call.Finished, call.Outcome = from.AfterCrash(), c.now(), &out
	changesAfterCrash(call, from, became)
	_, err := c.ledger.Record(ctx, call, event)
	if err == nil {
		c.recorded(call)
	}
	return err
}

// afterCrash is what is said of the changes of a call that a daemon died in.
var afterCrash = map[palyra.Settlement]string{
	palyra.EffectsKept:    "; what it changed in its workspace was kept",
	palyra.EffectsDropped: "; nothing that it changed in its workspace was kept",
	"":                    ", and what became of its changes",
}

// changesAfterCrash has the outcome of a call that a daemon died in say what became of its changes. Before they were on
// record none of them was kept.
func changesAfterCrash(call *palyra.Call, from palyra.State, became palyra.Result) {
	out := call.Outcome
	if call.State == palyra.Unknown && call.Plan.Staging.Own() {
		out.Effects, out.Reason = palyra.EffectsDropped, out.Reason+afterCrash[palyra.EffectsDropped]
	}
	if from != palyra.Settling {
		return
	}
	call.State, out.Effects = palyra.Unknown, became.Effects // it ran, and what it printed is gone
	out.Reason = "the daemon died before it was on record how the call ended" + afterCrash[became.Effects]
	if call.Keep != nil {
		out.Changes = &call.Keep.Effects
	}
	if became.Failure != nil {
		out.Reason += "; " + became.Failure.Text
	}
}

// resume goes on with a call that waits for an answer unless it is under way already; it
// returns the flight, or nil when the daemon stops.
func (c *Calls) resume(call *palyra.Call) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.byID[call.ID]; f != nil {
		return f
	}
	if c.ctx.Err() != nil || call.State != palyra.Pending && !heldBack(call) {
		return nil
	}
	f := c.fly(call.ID, call.Proposal, call.Input)
	shown := *call
	f.log.Tell(&shown, palyra.ApprovalJoined{Approval: call.Asked().Approval, Call: call.ID})
	c.launch(f, func(ctx context.Context, watch gate.Watcher) (palyra.Outcome, error) {
		return c.gate.Resume(ctx, call, watch)
	})
	return f
}

// ApprovalSettled is told that an approval has its answer: calls of an earlier daemon that wait for it go on. Calls
// of this daemon wake by themselves. It is quick: the work is done on its own goroutine.
func (c *Calls) ApprovalSettled(approval palyra.ApprovalID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left[approval] || c.ctx.Err() != nil {
		return
	}
	delete(c.left, approval)
	c.wg.Go(func() {
		calls, err := c.ledger.waitingFor(c.ctx, approval)
		if err != nil { // the call stays pending; the next start finds it
			c.log.Error("cannot resume the calls of an approval", "approval", approval, "error", err)
			return
		}
		for _, call := range calls {
			c.resume(call)
		}
	})
}
