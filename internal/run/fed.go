package run

import (
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

// fed is what a call was given and has no line yet, and the sum of all that it was
// given.
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
func (f *fed) line(call palyra.ID) palyra.CallFed {
	return palyra.CallFed{
		Call: call, By: f.by.Principal, Credential: palyra.Clip(f.by.Credential, maxCredential), Room: f.by.Room,
		Count: f.count, Bytes: f.bytes, Signals: f.signals, Ended: f.ended, Digest: palyra.Digest("sha256:" + hex.EncodeToString(f.sum.Sum(nil))),
	}
}

// note counts input before the call gets it, and sees to its line: at once, then as
// often as fedEvery, at the latest with the end of the call.
func (c *Calls) note(f *flight, by palyra.Reach, x palyra.Feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f.fed.add(by, x) || c.byID[f.id] != f {
		return
	}
	if f.noting == nil {
		f.noting = make(chan struct{}, 1)
		c.wg.Go(func() { c.noteUntilDone(f) })
	}
	nudge(f.noting)
}

func (c *Calls) noteUntilDone(f *flight) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-f.done:
			return
		case <-f.noting:
		}
		err := c.ledger.db.Write(c.ctx, "call.fed", func(tx *store.Tx) error { return c.fedLine(tx, f.id) })
		if err != nil && c.ctx.Err() == nil { // the next turn tries again, the end of the call at the latest
			c.log.Warn("input has no line in the journal yet", "call", f.id, "error", err)
			nudge(f.noting)
		}
		pause.Reset(fedEvery)
		select {
		case <-f.done:
			return
		case <-pause.C:
		}
	}
}

// fedLine writes the line of the input that has none yet. What a failed write took
// is given back.
func (c *Calls) fedLine(tx *store.Tx, id palyra.ID) error {
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
