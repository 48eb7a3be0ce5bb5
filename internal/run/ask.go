package run

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
)

// Answer is a yes to what a running call asked for.
type Answer struct {
	Until   time.Time       // zero: as long as the call runs
	Grant   palyra.GrantID  // of the call that allowed it
	Revoked <-chan struct{} // closed when it is taken back; nil: never
}

// underway is what is kept for a flight while its call runs, and goes with that.
type underway struct {
	pause  func() (resume func())           // stops the run's clock
	leases map[palyra.LeaseID]chan struct{} // that it was answered by; closed when they end
}

var (
	errNotRunning = palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "the call that asked has ended")
	errNotWaiting = palyra.Errorf(palyra.Denied, palyra.ReasonApprovalNotAwaited, "the caller does not wait for answers")
	errTakenBack  = palyra.Errorf(palyra.Denied, palyra.ReasonGrantRevoked, "the lease has ended already")
)

// Ask puts what a running call wants, and was not granted, to the gate as a call of its own: judged, asked about,
// answered, recorded and attested like any other, in the name of whoever proposed the parent. Whoever follows the
// parent hears of the question. The parent's clock stands still while people are asked: how long they take is not
// the program's doing. A no is an error with Code Denied. The question is withdrawn when ctx ends first, or the
// parent's run does.
func (c *Calls) Ask(ctx context.Context, parent *palyra.Call, tool palyra.ToolName, args json.RawMessage, purpose string) (Answer, error) {
	if parent.Proposal.NoWait {
		return Answer{}, errNotWaiting
	}
	id, out, err := c.child(ctx, parent, parent.Proposal.Child(parent, purpose), tool, args)
	switch {
	case err != nil:
		return Answer{}, err
	case out.Outcome != palyra.OutcomeFinished || out.ReasonCode != "":
		return Answer{}, palyra.Errorf(palyra.Denied, out.ReasonCode, "%s", out.Reason).WithRemedy("%s", out.Remedy)
	}
	return c.holds(ctx, parent.ID, id, out.GrantID)
}

// Work makes a call that is part of what a running one does, and waits for its outcome. It counts in the budget of the run, as
// a question does not, and has the scopes of its parent.
func (c *Calls) Work(ctx context.Context, parent *palyra.Call, tool palyra.ToolName, args json.RawMessage, purpose string,
) (palyra.Outcome, error) {
	p := parent.Proposal.Child(parent, purpose)
	p.Scopes, p.CallsUsed = parent.Proposal.Scopes, c.counts.Work(parent)
	_, out, err := c.child(ctx, parent, p, tool, args)
	return out, err
}

// child makes a call for a running one, in the name of whoever proposed that, and waits for its outcome.
func (c *Calls) child(ctx context.Context, parent *palyra.Call, p palyra.Proposer, tool palyra.ToolName, args json.RawMessage,
) (palyra.CallID, palyra.Outcome, error) {
	f, err := c.startChild(ctx, palyra.Proposal{
		Proposer: p, Workspace: parent.Proposal.Workspace, Tool: tool, Arguments: args, NoWait: parent.Proposal.NoWait,
	})
	if err != nil {
		return "", palyra.Outcome{}, err
	}
	out, err := c.followChild(ctx, parent.ID, f)
	if ctx.Err() != nil {
		f.cancel(ErrCancelled)
		<-f.done
	}
	return f.id, out, err
}

// startChild starts the call of a question. One whose parent ended as it was started
// was not among those that ended with it.
func (c *Calls) startChild(ctx context.Context, p palyra.Proposal) (*flight, error) {
	if c.runs(p.Parent) == nil {
		return nil, errNotRunning
	}
	f, err := c.startInSession(ctx, p)
	if err != nil {
		return nil, err
	}
	if c.runs(p.Parent) == nil {
		f.cancel(ErrCancelled)
	}
	return f, nil
}

// runs returns what is kept for a call that runs; nil: it does not.
func (c *Calls) runs(id palyra.CallID) *underway {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.byID[id]; f != nil {
		return f.underway
	}
	return nil
}

// followChild follows the call of a question to its end, with those who follow its
// parent. What policy answers by itself is the run's own time.
func (c *Calls) followChild(ctx context.Context, parent palyra.CallID, f *flight) (palyra.Outcome, error) {
	var resume func()
	out, err := c.follow(ctx, f, palyra.Watch{Event: func(child *palyra.Call, e palyra.Event) {
		switch e.(type) {
		case palyra.ApprovalRequested, palyra.ApprovalJoined:
			if u := c.runs(parent); u != nil && resume == nil {
				resume = u.pause()
			}
		}
		c.relay(parent, child, e)
	}}, false)
	if resume != nil {
		resume()
	}
	return out, err
}

// relay lets those who follow a call hear of a question that it waits for. Nothing is kept beyond the flight.
func (c *Calls) relay(to palyra.CallID, of *palyra.Call, e palyra.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.byID[to]
	if f == nil {
		return
	}
	switch e.(type) {
	case palyra.ApprovalRequested, palyra.ApprovalJoined, palyra.CallJudged, palyra.CallRefused:
		shown := *of
		f.log.Tell(&shown, e)
		f.wake()
	}
}

// holds says how long a yes holds: that of a lease until the lease ends, any other as long as the parent runs.
func (c *Calls) holds(ctx context.Context, parent, id palyra.CallID, grant palyra.GrantID) (Answer, error) {
	a := Answer{Grant: grant}
	child, err := c.ledger.Get(ctx, id)
	if err != nil {
		return Answer{}, err
	}
	lease := child.Decision.Lease
	if lease == "" || child.Decision.Scope == palyra.ScopeOnce {
		return a, nil
	}
	if a.Revoked = c.goesBy(parent, lease); a.Revoked == nil {
		return Answer{}, errNotRunning
	}
	l, err := c.lease(ctx, lease) // after it is watched: its end is seen here or told there
	if err != nil {
		return Answer{}, err
	}
	if takenBack(l) {
		return Answer{}, errTakenBack
	}
	a.Until = l.ExpiresAt
	return a, nil
}

// takenBack reports whether a lease ended other than by being used up.
func takenBack(l palyra.Lease) bool { return l.Ended != "" && l.Ended != palyra.LeaseSpent }

// goesBy returns what is closed when a lease ends while a call runs; nil for one that does not run.
func (c *Calls) goesBy(id palyra.CallID, lease palyra.LeaseID) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.byID[id]
	if f == nil || f.underway == nil {
		return nil
	}
	if f.underway.leases[lease] == nil {
		f.underway.leases[lease] = make(chan struct{})
	}
	return f.underway.leases[lease]
}

// leaseEnded reports whether a lease was taken back. One that cannot be looked at was.
func (c *Calls) leaseEnded(id palyra.LeaseID) bool {
	l, err := c.lease(c.ctx, id)
	return err != nil || takenBack(l)
}

// tell closes what waits for the end of a lease. The lock is held.
func (u *underway) tell(lease palyra.LeaseID) {
	if u == nil || u.leases[lease] == nil {
		return
	}
	close(u.leases[lease])
	delete(u.leases, lease)
}

// running tells those who follow the call, and keeps what a run needs to ask, until
// it is over: then what came out of it ends.
func (c *Calls) running(f *flight, call *palyra.Call, pause func() (resume func())) (over func()) {
	c.setUnderway(f, &underway{pause: pause, leases: map[palyra.LeaseID]chan struct{}{}})
	if !c.Starting(call, func(call *palyra.Call) { c.runsNow(f, call) }) {
		c.runsNow(f, call)
	}
	return func() {
		c.setUnderway(f, nil) // first: no further question begins
		c.endChildren(call)
	}
}

func (c *Calls) setUnderway(f *flight, u *underway) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.underway = u
}

// endChildren ends what came out of a call that is over: what it asked for, and calls
// and sessions of the agent that it was.
func (c *Calls) endChildren(of *palyra.Call) {
	c.endFlights(of.ID)
	c.counts.Over(of.ID)
	if !of.Plan.AgentSocket { // it has no room
		return
	}
	if err := c.sessions.CloseRoom(c.ctx, of.ID); err != nil && c.ctx.Err() == nil { // nobody can join them; they are closed when idle
		c.log.Warn("the sessions of a room that is over are not closed yet", "call", of.ID, "error", err)
	}
}

func (c *Calls) endFlights(of palyra.CallID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.byID {
		if f.parent == of && of != "" {
			f.cancel(ErrCancelled)
		}
	}
}
