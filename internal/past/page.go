package past

import (
	"context"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/journal"
	"palyra/internal/policy/replay"
	"palyra/internal/rpc/wire"
	"palyra/internal/run"
)

// lotRows are the rows that one core reads and judges at a time.
const lotRows = 64

// records goes through the calls that a query picks, in the order of their proposals. The journal says how each was
// judged first: a row holds what was judged last.
func (p Past) records(ctx context.Context, q wire.ReplayQuery) replay.Records {
	r := &reader{Config: p.Config}
	return func(yield func(replay.Lot) error) error {
		return p.Ledger.Past(ctx, q.Since, q.Until, func(rows []run.Past) error {
			page, err := r.fetch(ctx, rows)
			if err != nil {
				return err
			}
			for some := range slices.Chunk(rows, lotRows) {
				if err := yield(func() []replay.Record { return r.read(page, some) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// reader makes records of rows. What stands in many rows is read once.
type reader struct {
	Config
	plans once
	tools tools
	own   ownPlaces
	mu    sync.Mutex
	idle  []*desk // that nobody reads at
}

// page is the journal's lines and the desk's answers for rows.
type page struct {
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
	return &page{lines: lines, ended: ended}, nil
}

// read makes records of some rows of a page.
func (r *reader) read(p *page, rows []run.Past) []replay.Record {
	d := r.desk()
	defer r.give(d)
	out := make([]replay.Record, 0, len(rows))
	for _, row := range rows {
		out = append(out, r.records(row, p.lines[row.ID], p.ended[row.Approval], d)...)
	}
	return out
}

func (r *reader) desk() *desk {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.idle)
	if n == 0 {
		return newDesk(&r.tools)
	}
	d := r.idle[n-1]
	r.idle = r.idle[:n-1]
	return d
}

func (r *reader) give(d *desk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, d)
}
