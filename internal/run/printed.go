package run

import (
	"time"

	"palyra"
	"palyra/internal/run/calllog"
	"palyra/internal/store"
)

const (
	tapeEvery   = 200 * time.Millisecond // how long output may wait for its place on the tape
	maxTapedOut = 8 << 20                // of a run, with what each piece costs; its tape takes no more output then
)

// pump puts what a run's call prints onto the tape: at once, then as often as
// tapeEvery. The end of the call takes the rest along.
func (c *Calls) pump(f *flight) {
	if f.like.run == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.pumping == nil {
		if c.byID[f.id] != f { // it has landed
			return
		}
		f.pumping = make(chan struct{}, 1)
		c.wg.Go(func() { c.pumpUntilDone(f) })
	}
	nudge(f.pumping)
}

func (c *Calls) pumpUntilDone(f *flight) {
	for f.nudged(f.pumping) {
		err := c.ledger.db.Write(c.ctx, "tape.output", func(tx *store.Tx) error { return c.tapeOutput(tx, f.id) })
		if err != nil && c.ctx.Err() == nil { // the next turn tries again, the end of the call at the latest
			c.log.Warn("output is not on the tape yet", "call", f.id, "error", err)
			nudge(f.pumping)
		}
		if !f.rests(tapeEvery) {
			return
		}
	}
}

// tapeOutput writes what a call printed and is not on the tape yet. It runs inside a write, and writes follow each
// other: no piece is told twice or out of order, and what a failed write took is given back.
func (c *Calls) tapeOutput(tx *store.Tx, id palyra.CallID) error {
	c.mu.Lock()
	f := c.byID[id]
	if f == nil || f.like.run == "" {
		c.mu.Unlock()
		return nil
	}
	before := f.taped
	news, after := f.log.Since(before)
	f.taped = after
	c.mu.Unlock()
	tx.OnDone(func(kept bool) {
		if !kept {
			c.mu.Lock()
			f.taped = before
			c.mu.Unlock()
		}
	})
	return c.ledger.tape.output(tx, f.like.run, id, news)
}

// output writes pieces of output up to the run's cap.
func (t *tape) output(tx *store.Tx, run palyra.RunID, call palyra.CallID, news []calllog.Item) error {
	var taped int64
	if err := tx.Get(`SELECT coalesce(max(taped), 0) FROM runs WHERE id=?`, []any{string(run)}, &taped); err != nil {
		return err
	}
	before := taped
	for _, x := range news {
		if x.Happened != nil {
			continue
		}
		for data, at := x.Out.Data, x.Out.Offset; len(data) > 0 && taped+calllog.PerPiece < maxTapedOut; {
			n := min(int64(len(data)), calllog.MaxPiece, maxTapedOut-taped-calllog.PerPiece)
			piece := &palyra.TapeOutput{Call: call, Stream: x.Out.Stream, Offset: at, Data: data[:n]}
			if err := t.add(tx, run, palyra.TapeEntry{ToolOutput: piece}); err != nil {
				return err
			}
			data, at, taped = data[n:], at+n, taped+n+calllog.PerPiece
		}
	}
	if taped == before {
		return nil
	}
	_, err := tx.Exec(`UPDATE runs SET taped=? WHERE id=?`, taped, string(run))
	return err
}
