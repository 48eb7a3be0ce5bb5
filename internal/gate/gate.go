// Package gate is the one path a tool call takes, from proposal to outcome.
//
// Do reads top to bottom in the order in which things become durable; every door reaches it and nothing else runs a
// tool. The parts it walks through are small interfaces in root words, passed in by the daemon.
//
// Promises: nothing runs before its granted line is durable; what ran is the plan that was judged and, where policy
// asks, shown and answered; no output leaves before its finished line is durable, and no change of a staged run is
// kept before it is on record and judged. A refusal is an outcome. An error means that the record could not be
// kept, and then nothing ran, or the output is withheld.
//
// Its words are those of docs/words.md.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"palyra"
)

// Ledger keeps calls and their journal lines.
type Ledger interface {
	// Record makes the call as it now stands and the events durable, all or none, and returns the position of the last
	// event. A Conflict error means that the world moved (a question was settled, a lease was spent) and nothing was
	// written.
	Record(ctx context.Context, c *palyra.Call, events ...palyra.Event) (palyra.Position, error)
	// Labels returns what the calls of c's session have done, with what those under way may be doing.
	Labels(ctx context.Context, c *palyra.Call) ([]string, error)
}

// Catalog knows the tools.
type Catalog interface {
	// Admit finds the tool and checks the arguments against its schema and caps.
	Admit(ctx context.Context, p palyra.Proposal) (palyra.Tool, error)
}

// Planner resolves a call.
type Planner interface {
	// Resolve returns everything that decides what the call will do.
	Resolve(ctx context.Context, c *palyra.Call) (palyra.Plan, error)
}

// Judge is policy.
type Judge interface {
	// Judge never fails: what cannot be judged is denied.
	Judge(ctx context.Context, r palyra.Request) palyra.Verdict
}

// Desk is where people are asked.
type Desk interface {
	// Cover returns the decision behind a live lease that covers the call.
	Cover(ctx context.Context, c *palyra.Call) (palyra.Decision, bool, error)
	// Prepare makes the question, or finds the open one about the same plan;
	// joined says which. It becomes real when the gate records it.
	Prepare(ctx context.Context, c *palyra.Call) (a palyra.Approval, joined bool, err error)
	// Wait returns when the approval is settled or ctx ends.
	Wait(ctx context.Context, id palyra.ApprovalID) (palyra.Decision, error)
	// Facts puts a decision into policy's terms.
	Facts(owner palyra.Principal, d palyra.Decision) palyra.ApprovalFacts
}

// Runner runs a confirmed plan in its tier.
type Runner interface {
	// Run returns what happened, also when that is a failure; ctx ends the run. The launch is asked what becomes of
	// the changes of a staged run, once nothing of the run lives and before any of them is kept.
	Run(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result
	// Settle keeps or drops changes that the launch said to hold, and says what
	// became of them; they may have been held by an earlier daemon.
	Settle(ctx context.Context, c *palyra.Call, keep bool) palyra.Result
}

// Attester signs what happened.
type Attester interface {
	// Ready says why nothing can be signed now. Then nothing runs.
	Ready() error
	// Attest signs the predicate of a run.
	Attest(ctx context.Context, p palyra.Predicate) (palyra.Attestation, error)
}

// Mask masks values of secrets in what is told of calls.
type Mask interface {
	// Result is a result as it leaves.
	Result(r palyra.Result) palyra.Result
	// Refusal is a refusal as it is told.
	Refusal(r palyra.Refusal) palyra.Refusal
	// String is a text as it is told.
	String(s string) string
}

// plain masks nothing.
type plain struct{}

func (plain) Result(r palyra.Result) palyra.Result    { return r }
func (plain) Refusal(r palyra.Refusal) palyra.Refusal { return r }
func (plain) String(s string) string                  { return s }

// Watcher is told of one call on its way. A nil field is not called.
type Watcher struct {
	// Events is told what became durable together, in order, for streams and tapes.
	Events func(c *palyra.Call, events ...palyra.Event)
	// Running is told that the call is about to run, and what it returns that nothing of it runs any more. Until then
	// pause stops the run's clock, for time that is not the run's own, until resume is called, which may be done more
	// than once. The clock stands still for half an hour of a run at most.
	Running func(c *palyra.Call, pause func() (resume func())) (over func())
}

// ErrStopping is the cause of a context that ends because the daemon stops: a
// question stays open and the call resumes at the next start.
var ErrStopping = errors.New("gate: the daemon is stopping")

// Config wires a Gate.
type Config struct {
	Ledger   Ledger
	Catalog  Catalog
	Planner  Planner
	Judge    Judge
	Desk     Desk
	Runner   Runner
	Attester Attester
	Mask     Mask // may be nil
	// Foresee keeps what a checked call is about to replace, so that it can be put back. Told, which is nil where nothing
	// is kept, is called with whether the caller was told that it may. An error: it may not. May be nil.
	Foresee func(ctx context.Context, c *palyra.Call) (told func(bool), err error)
	NewID   func() palyra.ID
	Now     func() time.Time
	Log     *slog.Logger // may be nil
}

// Gate is the path. It holds no state: the Ledger does.
type Gate struct{ Config }

// New returns a Gate.
func New(c Config) (*Gate, error) {
	if c.Ledger == nil || c.Catalog == nil || c.Planner == nil || c.Judge == nil || c.Desk == nil ||
		c.Runner == nil || c.Attester == nil || c.NewID == nil || c.Now == nil {
		return nil, errors.New("gate: new: a part is missing")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Mask == nil {
		c.Mask = plain{}
	}
	return &Gate{c}, nil
}

// Do takes a proposal all the way.
func (g *Gate) Do(ctx context.Context, id palyra.CallID, p palyra.Proposal, watch Watcher) (palyra.Outcome, error) {
	w := &walk{Gate: g, watch: watch, call: &palyra.Call{
		ID: id, Proposal: p, State: palyra.Proposed, Proposed: g.Now(),
		Input: palyra.SumBytes(p.Arguments),
	}}
	w.note(proposed(w.call, g.Mask)) // durable together with the next barrier; nothing runs before that

	if err := w.admit(ctx); err != nil {
		return w.refuse(ctx, palyra.LayerCatalog, err)
	}
	if err := w.resolve(ctx); err != nil {
		return w.refuse(ctx, palyra.LayerPlan, err)
	}
	w.judge(ctx, nil)
	if err := w.signable(); err != nil && w.call.Verdict.Effect != palyra.Deny {
		return w.refuse(ctx, palyra.LayerJournal, err)
	}

	switch w.call.Verdict.Effect {
	case palyra.Allow:
		return w.pass(ctx)
	case palyra.Ask:
		return w.ask(ctx)
	}
	return w.refuse(ctx, palyra.LayerPolicy, denied(w.call.Verdict))
}

// Resume goes on with a call whose question was open when a daemon ended, also one about what it had changed.
func (g *Gate) Resume(ctx context.Context, c *palyra.Call, watch Watcher) (palyra.Outcome, error) {
	c.Plan.Detail = c.Detail
	w := &walk{Gate: g, watch: watch, call: c}
	var res palyra.Result
	switch {
	case c.State == palyra.Pending && c.Approval != "":
		return w.await(ctx)
	case c.State == palyra.Settling && c.Keep != nil && c.Keep.Approval != "" && json.Unmarshal(c.Keep.Result, &res) == nil:
		return w.awaitKeep(ctx, res)
	}
	return palyra.Outcome{}, palyra.Errorf(palyra.Conflict, palyra.ReasonInternal, "call %s has no open question", c.ID)
}

// ask looks for a lease, else opens the question and waits for its answer.
func (w *walk) ask(ctx context.Context) (palyra.Outcome, error) {
	if w.call.Proposal.Observe {
		return w.observeAsk(ctx)
	}
	if w.call.Proposal.NoWait && w.call.Verdict.Need.Fresh { // the answer would be for this call alone, which is over by then
		return w.refuse(ctx, palyra.LayerApproval, notAwaitedFresh())
	}
	for try := 1; w.call.State != palyra.Pending; try++ {
		d, ok, err := w.cover(ctx)
		if err != nil {
			return w.refuse(ctx, palyra.LayerApproval, err)
		}
		if ok {
			w.call.Decision = d
			return w.judgeAgain(ctx)
		}
		switch kept, err := w.question(ctx); { // barrier: proposed, judged, the open question
		case err == nil:
		case !kept: // the record failed: nothing may follow it, not even a refusal
			return palyra.Outcome{}, err
		case palyra.CodeOf(err) != palyra.Conflict || try == questionTries: // Conflict: the world moved, look again
			return w.refuse(ctx, palyra.LayerApproval, err)
		}
	}
	if w.call.Proposal.NoWait { // the question stays open: an allow covers the same call when it comes again
		return w.refuse(ctx, palyra.LayerApproval, notAwaited(w.call))
	}
	return w.await(ctx)
}

// await waits for the answer. The wait survives the caller and the daemon; only a cancel ends the question.
func (w *walk) await(ctx context.Context) (palyra.Outcome, error) {
	d, err := w.wait(ctx, w.call.Approval)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), ErrStopping):
		return palyra.Outcome{}, stoppingWith(w.call.ID)
	case ctx.Err() != nil:
		return w.cancel(ctx)
	default:
		return w.refuse(ctx, palyra.LayerApproval, err)
	}
	if d.Overtaken() { // the answer to another question left a lease that covers this call: look for it
		if d, err = w.overtaken(ctx, d); err != nil {
			return w.refuse(ctx, palyra.LayerApproval, err)
		}
	}
	w.call.Decision = d
	if d.Answer != palyra.AnswerAllow {
		return w.refuse(ctx, palyra.LayerApproval, notAllowed(d))
	}
	return w.judgeAgain(ctx)
}

// judgeAgain judges again with the real answer in hand: policy may want more than
// an answer gives, and the world may have moved while the call waited.
func (w *walk) judgeAgain(ctx context.Context) (palyra.Outcome, error) {
	facts := w.facts(w.call.Decision)
	asked := w.call.Verdict
	w.judge(ctx, &facts)
	if w.call.Verdict.Effect != palyra.Allow {
		return w.refuse(ctx, palyra.LayerPolicy, insufficient(w.call.Verdict))
	}
	w.call.Verdict.Effect, w.call.Verdict.Need = palyra.Ask, asked.Need // it took an answer: the grant must carry one
	return w.pass(ctx)
}

// launch grants, resolves again, runs, signs and answers.
func (w *walk) launch(ctx context.Context) (palyra.Outcome, error) {
	if err := w.signable(); err != nil { // once more: it may have waited for an answer, and for another daemon
		return w.refuse(ctx, palyra.LayerJournal, err)
	}
	id := palyra.GrantID(w.call.Decision.Lease) // a grant that comes from an answer goes by the name people know it by
	if id == "" {
		id = palyra.GrantID(w.NewID())
	}
	grant, err := palyra.NewGrant(id, w.call, w.Now())
	if err != nil {
		return w.refuse(ctx, palyra.LayerGrant, err)
	}
	w.call.Grant = grant.ID()
	w.moveTo(palyra.Granted)
	confirmed, drop := w.confirmAhead(ctx, grant)
	pos, err := w.record(ctx, granted(w.call)) // barrier: nothing has run before this line
	if err != nil {
		drop()
	}
	switch {
	case palyra.CodeOf(err) == palyra.Conflict: // the lease was spent, revoked or expired meanwhile
		w.call.Grant = ""
		return w.refuse(ctx, palyra.LayerGrant, err)
	case err != nil:
		return palyra.Outcome{}, err
	}
	w.call.Granted = pos

	clock, end := startClock(ctx, wallOf(w.call.Plan))
	defer end()
	launch, err := confirmed(clock) // what would run now is what was judged, or nothing runs
	if err != nil {
		w.Log.Warn("a call was not launched", "call", w.call.ID, "err", err)
		return w.refuse(ctx, palyra.LayerTier, err)
	}
	w.moveTo(palyra.Running)
	res := w.run(ctx, clock, launch.WeighedBy(w.weighUntil(ctx))) // what it changed is on record and judged before any of it is kept
	switch {
	case res.Refusal != nil:
		w.call.State = palyra.Granted // the runner did not start
		return w.refused(ctx, *res.Refusal)
	case w.broken != nil: // no record, no output
		return palyra.Outcome{}, w.broken
	case res.Effects == palyra.EffectsHeld:
		return w.askToKeep(ctx, res)
	}
	return w.finish(ctx, w.explainDropped(res))
}
