package agent

import (
	"context"
	"sync"

	"palyra"
	"palyra/internal/run"
)

// Bounds on what a provider may ask for.
const (
	maxTurns = 1000
	maxCalls = 64 // of a turn
)

// host is a run.Live, as far as the loop needs it.
type host interface {
	Run() palyra.Run
	Inputs(ctx context.Context, turn int64) ([]string, error)
	Text(ctx context.Context, turn int64, text string, done bool) error
	Call(ctx context.Context, turn, index int64, c run.ToolCall) (palyra.Outcome, error)
}

// memory is what a run keeps for a model, and shows of it while it speaks. Runs have one; a host without it
// can be driven by any provider except a model.
type memory interface {
	Text(ctx context.Context, turn int64, text string, done bool) error
	Kept(ctx context.Context, turn int64) ([]byte, error)
	Keep(ctx context.Context, turn int64, body []byte, cost palyra.Tokens) error
	Earlier(ctx context.Context, most int) ([]run.KeptTurn, error)
	Anew(ctx context.Context, turn int64) error
}

// drive takes turns until the provider is done.
func (l *Loop) drive(ctx context.Context, h host, p Provider) error {
	t := Transcript{Run: h.Run(), Turn: 1}
	t.memory, _ = h.(memory)
	for ; t.Turn <= maxTurns; t.Turn++ {
		var err error
		if t.Inputs, err = h.Inputs(ctx, t.Turn); err != nil {
			return err
		}
		turn, err := p.Next(ctx, t)
		if err != nil {
			return ended(ctx, err)
		}
		if err := turn.check(); err != nil {
			return err
		}
		past, err := l.take(ctx, h, t.Turn, turn)
		if err != nil {
			return ended(ctx, err)
		}
		if turn.Done || turn.fail != nil {
			return turn.fail
		}
		past.Inputs = t.Inputs
		t.add(past)
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonBudgetSpent, "the run took %d turns and was not done", maxTurns).
		WithRemedy("do less in one run")
}

// ended prefers the reason why a run was ended to the error that came of it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// check refuses a turn that would not get anywhere, or too far.
func (t Turn) check() error {
	switch {
	case len(t.Calls) > maxCalls:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonMalformedInput, "the provider proposed %d calls in a turn, at most %d",
			len(t.Calls), maxCalls)
	case t.Text == "" && len(t.Calls) == 0 && !t.Done:
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the provider returned an empty turn")
	}
	return nil
}

// take says a turn's text and makes its calls.
func (l *Loop) take(ctx context.Context, h host, n int64, turn Turn) (Past, error) {
	if turn.Text != "" && !turn.said {
		if err := h.Text(ctx, n, turn.Text, true); err != nil {
			return Past{}, err
		}
	}
	past := Past{Text: turn.Text}
	for i := 0; i < len(turn.Calls); {
		batch := turn.Calls[i : i+l.parallelCalls(turn.Calls[i:])]
		made, err := l.make(ctx, h, n, int64(i)+1, batch)
		if err != nil {
			return Past{}, err
		}
		past.Calls = append(past.Calls, made...)
		i += len(batch)
	}
	return past, nil
}

// parallelCalls is how many of the calls, from the first on, may be made at once.
func (l *Loop) parallelCalls(calls []ToolCall) int {
	n := 0
	for n < len(calls) && l.Tools.ReadOnly(calls[n].Tool) {
		n++
	}
	return max(n, 1)
}

// make makes a batch of calls, numbered from first on, as many at a time as the
// run may, and then checks them in their order.
func (l *Loop) make(ctx context.Context, h host, turn, first int64, batch []ToolCall) ([]Made, error) {
	made := make([]Made, len(batch))
	err := spread(ctx, len(batch), int(max(h.Run().Budget.Parallel, 1)), func(ctx context.Context, i int) (err error) {
		c := batch[i]
		made[i].Call = c
		if c.Bad != "" {
			made[i].Outcome = palyra.Outcome{
				Outcome: palyra.OutcomeRefused, Tool: c.Tool, Layer: palyra.LayerCatalog, ReasonCode: palyra.ReasonMalformedInput, Reason: c.Bad,
				ExitCode: palyra.ExitRefused,
			}
			return nil
		}
		made[i].Outcome, err = h.Call(ctx, turn, first+int64(i), run.ToolCall{Tool: c.Tool, Arguments: c.Arguments, Workspace: c.Workspace})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range made {
		if m.Call.Check == nil {
			continue
		}
		if err := m.Call.Check(m.Outcome); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// spread makes n calls, at most width of them at once. After an error no further
// one begins and those under way are left; it returns that error.
func spread(ctx context.Context, n, width int, call func(context.Context, int) error) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	var wg sync.WaitGroup
	free := make(chan struct{}, width)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				return
			}
			if err := call(ctx, i); err != nil {
				leave(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
