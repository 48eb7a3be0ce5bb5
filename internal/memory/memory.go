// Package memory shares out a number of bytes among callers.
//
// What one call needs is small beside what a machine has; what all callers need at once is not, and an agent
// chooses how many they are. So whoever is about to hold much takes it from a Budget first, waits a while when
// there is none, and gives it back. Nobody gets more than a share, so that one caller never stops the others.
//
// The numbers are what callers say they will hold, not what the process has: a
// caller says the most it can need before it reads anything.
package memory

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The errors of Take.
var (
	ErrBusy     = errors.New("memory: others hold it")
	ErrTooLarge = errors.New("memory: more than a share")
)

// Budget is bytes that callers hold together. The zero Budget has none to give.
type Budget struct {
	total, share int64
	patience     time.Duration

	mu   sync.Mutex // guards the fields below
	held int64
	most int64 // ever held
	by   map[string]int64
	line []*waiter // in the order they came
}

type waiter struct {
	who   string
	n     int64
	ready chan struct{}
	got   bool
}

// NewBudget returns a budget of total bytes, of which a caller may have share, and
// for which Take waits at most patience.
func NewBudget(total, share int64, patience time.Duration) *Budget {
	return &Budget{total: total, share: min(share, total), patience: patience, by: map[string]int64{}}
}

// Take gets n bytes for a caller, and waits for them as long as ctx and the patience of the budget last: ErrBusy
// then, or the error of ctx. ErrTooLarge: no waiting would help. The caller gives them back with release, once.
func (b *Budget) Take(ctx context.Context, who string, n int64) (release func(), err error) {
	if n <= 0 {
		return func() {}, nil
	}
	if n > b.share {
		return nil, ErrTooLarge
	}
	w := &waiter{who: who, n: n, ready: make(chan struct{})}
	b.mu.Lock()
	b.line = append(b.line, w)
	b.serve()
	b.mu.Unlock()
	clock := time.NewTimer(b.patience)
	defer clock.Stop()
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-clock.C:
		err = ErrBusy
	}
	if err != nil && b.leave(w) {
		return nil, err
	}
	var once sync.Once
	return func() { once.Do(func() { b.giveBack(w) }) }, nil
}

// Held is how much callers hold now, and the most they ever held.
func (b *Budget) Held() (now, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.most
}

// serve lets in who fits, in order. One who would pass its own share lets the others by; one who waits for the
// whole does not, or a large need would wait for ever. The lock is held.
func (b *Budget) serve() {
	kept := b.line[:0]
	full := false
	for _, w := range b.line {
		switch {
		case full || b.by[w.who]+w.n > b.share:
			kept = append(kept, w)
		case b.held+w.n > b.total:
			full = true
			kept = append(kept, w)
		default:
			b.held += w.n
			b.most = max(b.most, b.held)
			b.by[w.who] += w.n
			w.got = true
			close(w.ready)
		}
	}
	clear(b.line[len(kept):])
	b.line = kept
}

// leave takes a waiter out of the line; false: it was served meanwhile.
func (b *Budget) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.got {
		return false
	}
	for i, x := range b.line {
		if x == w {
			b.line = append(b.line[:i], b.line[i+1:]...)
			break
		}
	}
	b.serve()
	return true
}

func (b *Budget) giveBack(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= w.n
	if b.by[w.who] -= w.n; b.by[w.who] == 0 {
		delete(b.by, w.who)
	}
	b.serve()
}
