package run

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/run/background"
	"palyra/internal/run/budget"
	"palyra/internal/run/calllog"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

// Live is a run under way, as its driver sees it: what it says and proposes goes on the tape and through the gate.
// Turns and the calls of a turn count from 1; together they name a call for good, so that a driver that starts
// again after a restart gets the same answers without anything running twice.
type Live struct {
	runs    *Runs
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
	listens bool
	count   *budget.Count

	mu    sync.Mutex     // guards the fields below; a leaf lock
	run   palyra.Run     // as it stood when driving began
	said  map[int64]said // what the tape has of each turn's text
	spent int            // refusals for a spent budget
}

// said is how much of a turn's text is on the tape.
type said struct {
	bytes int // by an earlier drive, and not yet said again by this one
	now   int // by this drive
	done  bool
}

// Run returns the run as it stood when driving began.
func (l *Live) Run() palyra.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// Text puts a piece of what the model says in a turn onto the tape; done marks
// the turn's last. What the tape already has of the turn is not written again.
func (l *Live) Text(ctx context.Context, turn int64, text string, done bool) error {
	if turn < 1 {
		return errBadTurn
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text, heard := l.unsaid(turn, text, done)
	if heard {
		return nil
	}
	err := l.runs.retry(ctx, func() error {
		return l.runs.DB.Write(ctx, "tape.text", func(tx *store.Tx) error { return l.runs.say(tx, l.run.ID, turn, text, done) })
	})
	if err != nil {
		return err
	}
	return l.affordable(ctx)
}

// unsaid takes off what is on the tape already, from an earlier drive; heard
// means that nothing is left to say. The drive that follows says the rest.
func (l *Live) unsaid(turn int64, text string, done bool) (rest string, heard bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.said[turn]
	if s.done {
		return "", true
	}
	n := min(s.bytes, len(text))
	l.said[turn] = said{bytes: s.bytes - n, now: s.now + len(text) - n, done: done}
	return strings.ToValidUTF8(text[n:], ""), n == len(text) && !done
}

// say writes text in pieces that a reader can swallow.
func (r *Runs) say(tx *store.Tx, run palyra.RunID, turn int64, text string, done bool) error {
	size := len(text)
	for {
		n := len(text)
		if n > calllog.MaxPiece {
			for n = calllog.MaxPiece; !utf8.RuneStart(text[n]); n-- {
			}
		}
		piece := &palyra.TapeText{Turn: turn, Text: text[:n], Done: done && n == len(text)}
		if err := r.tape.add(tx, run, palyra.TapeEntry{ModelText: piece}); err != nil {
			return err
		}
		if text = text[n:]; text == "" {
			break
		}
	}
	_, err := tx.Exec(`UPDATE runs SET output=output+? WHERE id=? AND ended_at=0`, size, string(run))
	return err
}

// ToolCall is a call that a driver proposes.
type ToolCall struct {
	Tool      palyra.ToolName
	Arguments json.RawMessage
	Workspace string // empty: the run's
}

// Call proposes the index-th call of a turn and waits for its outcome; a refusal
// is one. When the store cannot keep the record it rests and tries again. An
// error ends the run: ctx has ended, a budget is spent, or the record is lost.
func (l *Live) Call(ctx context.Context, turn, index int64, c ToolCall) (palyra.Outcome, error) {
	if turn < 1 || index < 1 {
		return palyra.Outcome{}, errBadTurn
	}
	if l.ctx.Err() != nil {
		return palyra.Outcome{}, context.Cause(l.ctx)
	}
	if err := l.paced(ctx); err != nil {
		return palyra.Outcome{}, err
	}
	p := l.proposal(turn, index, c)
	var out palyra.Outcome
	err := l.runs.retry(ctx, func() (err error) {
		out, err = l.runs.Calls.callOrStart(ctx, p)
		return err
	})
	if err != nil {
		return palyra.Outcome{}, err
	}
	if err := l.refusedAgain(out); err != nil {
		return palyra.Outcome{}, err
	}
	return out, l.affordable(ctx)
}

// callOrStart is Call, and returns of a background process when it runs.
func (c *Calls) callOrStart(ctx context.Context, p palyra.Proposal) (palyra.Outcome, error) {
	if p.Tool != palyra.ToolProcessStart {
		return c.Call(ctx, p, palyra.Watch{})
	}
	following, hangUp := context.WithCancel(ctx)
	defer hangUp()
	var runs *palyra.Call
	out, err := c.Call(following, p, palyra.Watch{Running: func(call *palyra.Call) { runs = call; hangUp() }})
	if err != nil && runs != nil && ctx.Err() == nil {
		return background.Outcome(runs)
	}
	return out, err
}

// paced waits until the run may propose another call. Its time goes on meanwhile.
func (l *Live) paced(ctx context.Context) error {
	for l.runs.Pace != nil {
		after, ok := l.runs.Pace(l.run.ID)
		if ok {
			return nil
		}
		timer := time.NewTimer(after)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-l.ctx.Done():
			timer.Stop()
			return context.Cause(l.ctx)
		}
	}
	return nil
}

func (l *Live) proposal(turn, index int64, c ToolCall) palyra.Proposal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Workspace == "" {
		c.Workspace = l.run.Workspace
	}
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	return palyra.Proposal{
		Proposer: palyra.Proposer{
			Principal: l.run.Principal, Owner: l.run.Owner, PeerUID: l.run.PeerUID, Surface: l.run.Surface,
			Session: l.run.Session, Run: l.run.ID, CallsUsed: l.count.Place(turn, index), CallsMax: l.run.Budget.Calls,
			Within: l.run.Within, Credential: l.run.Credential,
		},
		Key: tapeline.CallKey(l.run.ID, turn, index), Workspace: c.Workspace, Tool: c.Tool, Arguments: c.Arguments, NoWait: l.run.NoWait,
	}
}

// refusedAgain lets a run hear once that its calls are spent; the second time it ends.
func (l *Live) refusedAgain(out palyra.Outcome) error {
	if out.Outcome != palyra.OutcomeRefused || out.ReasonCode != palyra.ReasonBudgetSpent {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spent++; l.spent < 2 {
		return nil
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonBudgetSpent, "the run went on proposing after its %d calls were spent",
		l.run.Budget.Calls).
		WithRemedy("start a new run with a larger max_calls")
}

// affordable refuses to go on when what was delivered is over the budget.
func (l *Live) affordable(ctx context.Context) error {
	run, _, err := l.runs.load(ctx, l.run.ID)
	if err != nil {
		return err
	}
	if run.Output <= run.Budget.OutputBytes {
		return nil
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonBudgetSpent, "the run delivered %d bytes of output, at most %d", run.Output,
		run.Budget.OutputBytes).
		WithRemedy("start a new run with larger output_bytes, or print less")
}

var errBadTurn = palyra.Errorf(palyra.Invalid, palyra.ReasonInternal, "turns and calls count from 1")
