package past

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/journal"
	"palyra/internal/policy/replay"
	"palyra/internal/rpc/wire"
	"palyra/internal/run"
)

// records goes through the calls that a query picks, in the order of their proposals. The journal says how each was
// judged first: a row holds what was judged last. While a page is read and judged, the next one is fetched.
func (p Past) records(ctx context.Context, q wire.ReplayQuery) func(func(replay.Record) error) error {
	r := &reader{Config: p.Config, plans: newMemo(ReadJudgedPlan), tools: newMemo(readTool)}
	return func(yield func(replay.Record) error) error {
		return prefetch(ctx, func(ctx context.Context, hand func(*page) error) error {
			return p.Ledger.Past(ctx, q.Since, q.Until, func(rows []run.Past) error {
				page, err := r.fetch(ctx, rows)
				if err != nil {
					return err
				}
				return hand(page)
			})
		}, func(page *page) error {
			for _, one := range r.read(page) {
				if err := yield(one); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// prefetch runs fetch beside use, at most one value ahead of it, and returns the error that ended the whole:
// that of use, if it has one. Both have ended when it returns.
func prefetch[T any](ctx context.Context, fetch func(ctx context.Context, hand func(T) error) error, use func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	things, fetched := make(chan T), make(chan error, 1)
	go func() {
		defer close(things)
		fetched <- fetch(ctx, func(one T) error {
			select {
			case things <- one:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	var err error
	for one := range things {
		if err == nil {
			if err = use(one); err != nil {
				cancel()
			}
		}
	}
	if err != nil {
		return err
	}
	return <-fetched
}

// reader makes records of rows. Plans and tools that stand in many rows are read once.
type reader struct {
	Config
	plans *memo[palyra.Plan]
	tools *memo[palyra.Tool]

	own ownPlaces
}

// page is rows, with the journal's lines and the desk's answers for them.
type page struct {
	rows  []run.Past
	lines map[palyra.CallID][]journal.Raw
	ended map[palyra.ApprovalID]approval.Ended
}

// fetch looks up the lines and answers that belong to rows.
func (r *reader) fetch(ctx context.Context, rows []run.Past) (*page, error) {
	calls, questions := make([]palyra.CallID, len(rows)), []palyra.ApprovalID{}
	for i, row := range rows {
		calls[i] = row.ID
		if row.Approval != "" {
			questions = append(questions, row.Approval)
		}
	}
	lines, err := r.Journal.Of(ctx, palyra.CallJudged{}.Kind(), calls)
	if err != nil {
		return nil, err
	}
	ended, err := r.Desk.Ended(ctx, questions)
	if err != nil {
		return nil, err
	}
	return &page{rows: rows, lines: lines, ended: ended}, nil
}

// read makes records of a page on every core.
func (r *reader) read(p *page) []replay.Record {
	out := make([][]replay.Record, len(p.rows))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(out)) {
		wg.Go(func() {
			var s scratch
			for i := next.Add(1) - 1; i < int64(len(out)); i = next.Add(1) - 1 {
				row := p.rows[i]
				out[i] = r.records(row, p.lines[row.ID], p.ended[row.Approval], &s)
			}
		})
	}
	wg.Wait()
	return slices.Concat(out...)
}
