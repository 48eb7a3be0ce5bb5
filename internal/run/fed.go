package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"time"

	"palyra"
	"palyra/internal/store"
)

const (
	fedEvery      = 5 * time.Second // how long input may wait for its line
	maxSignals    = 16              // named in one line
	maxCredential = 128
)

// fed is what a call was given and has no line yet, and the sum of all that it was given.
type fed struct {
	by      palyra.Reach
	count   int64
	bytes   int64
	signals []string
	ended   bool
	sum     hash.Hash
}

// add counts a piece of input. A new size of a terminal is none.
func (f *fed) add(by palyra.Reach, x palyra.Feed) bool {
	if len(x.Data) == 0 && !x.End && x.Signal == "" {
		return false
	}
	if f.sum == nil {
		f.sum = sha256.New()
	}
	_, _ = f.sum.Write(x.Data) // a hash takes everything
	f.by = by
	f.count++
	f.bytes += int64(len(x.Data))
	f.ended = f.ended || x.End
	if x.Signal != "" && len(f.signals) < maxSignals {
		f.signals = append(f.signals, x.Signal)
	}
	return true
}

// line is what has none yet, as a line of the journal.
func (f *fed) line(call palyra.CallID) palyra.CallFed {
	return palyra.CallFed{
		Call: call, By: f.by.Principal, Credential: palyra.Clip(f.by.Credential, maxCredential), Room: f.by.Room,
		Count: f.count, Bytes: f.bytes, Signals: f.signals, Ended: f.ended, Digest: palyra.Digest("sha256:" + hex.EncodeToString(f.sum.Sum(nil))),
	}
}

// note puts input on record before the call gets it. The first piece, the first of another giver and the first
// after fedEvery have their line when note returns, or are not handed over; what comes in between stands in the
// next one, fedEvery later or with the end of the call. So a crash loses counts, and never who gave input.
func (c *Calls) note(ctx context.Context, f *flight, by palyra.Reach, x palyra.Feed) error {
	c.mu.Lock()
	other := f.fed.sum != nil && !sameGiver(f.fed.by, by)
	c.mu.Unlock()
	if other { // what the one before gave has its line first
		if err := c.writeFed(ctx, f); err != nil {
			return err
		}
	}
	if !c.count(f, by, x, other) {
		return nil
	}
	return c.writeFed(ctx, f)
}

func sameGiver(a, b palyra.Reach) bool {
	return a.Principal == b.Principal && a.Credential == b.Credential && a.Room == b.Room
}

// count counts a piece of input, and reports whether its line is due.
func (c *Calls) count(f *flight, by palyra.Reach, x palyra.Feed, other bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f.fed.add(by, x) || c.byID[f.id] != f {
		return false
	}
	if other || time.Since(f.noted) >= fedEvery {
		f.noted = time.Now()
		return true
	}
	if f.noting == nil {
		f.noting = make(chan struct{}, 1)
		c.wg.Go(func() { c.noteUntilDone(f) })
	}
	nudge(f.noting)
	return false
}

// writeFed writes the line of the input that has none yet.
func (c *Calls) writeFed(ctx context.Context, f *flight) error {
	return c.ledger.db.Write(ctx, "call.fed", func(tx *store.Tx) error { return c.fedLine(tx, f.id) })
}

func (c *Calls) noteUntilDone(f *flight) {
	for f.nudged(f.noting) && f.rests(fedEvery) {
		if err := c.writeFed(c.ctx, f); err != nil && c.ctx.Err() == nil { // the next turn tries again, the end of the call at the latest
			c.log.Warn("input has no line in the journal yet", "call", f.id, "error", err)
			nudge(f.noting)
		}
	}
}

// fedLine writes the line of the input that has none yet. What a failed write took is given back.
func (c *Calls) fedLine(tx *store.Tx, id palyra.CallID) error {
	c.mu.Lock()
	f := c.byID[id]
	if f == nil || f.fed.count == 0 {
		c.mu.Unlock()
		return nil
	}
	took := f.fed
	line := took.line(id)
	f.fed = fed{by: took.by, sum: took.sum}
	c.mu.Unlock()
	tx.OnDone(func(kept bool) {
		if kept {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		f.fed.count += took.count
		f.fed.bytes += took.bytes
		f.fed.ended = f.fed.ended || took.ended
		f.fed.signals = append(took.signals, f.fed.signals...)
	})
	_, err := c.ledger.journal.Append(tx, line)
	return err
}
