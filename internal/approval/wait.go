package approval

import (
	"context"
	"sync"

	"palyra"
	"palyra/internal/store"
)

// Wait returns the decision once the approval is settled, at once if it is; or
// ctx's error when that ends first. The question does not care who waits.
func (d *Desk) Wait(ctx context.Context, id palyra.ApprovalID) (palyra.Decision, error) {
	for {
		// Listen first, then look: what is settled in between rings.
		rung, stop := d.bells.listen(id)
		dec, err := d.decision(ctx, id)
		if err != nil || dec.Answer != palyra.AnswerPending {
			stop()
			if ctx.Err() != nil && err != nil {
				err = ctx.Err()
			}
			return dec, err
		}
		select {
		case <-rung:
			stop()
		case <-ctx.Done():
			stop()
			return palyra.Decision{}, ctx.Err()
		}
	}
}

func (d *Desk) decision(ctx context.Context, id palyra.ApprovalID) (dec palyra.Decision, err error) {
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		r, err := withVotes(tx, id)
		dec = r.Decision
		return err
	})
	return dec, wrap("wait", err)
}

// bells wake those who wait for an id.
type bells struct {
	mu sync.Mutex // a leaf lock
	by map[palyra.ApprovalID]*bell
}

type bell struct {
	rung      chan struct{}
	listeners int
}

// listen returns a channel that closes at the next ring, and how to stop.
func (b *bells) listen(id palyra.ApprovalID) (<-chan struct{}, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[palyra.ApprovalID]*bell{}
	}
	one := b.by[id]
	if one == nil {
		one = &bell{rung: make(chan struct{})}
		b.by[id] = one
	}
	one.listeners++
	return one.rung, func() { b.leave(id, one) }
}

func (b *bells) leave(id palyra.ApprovalID, one *bell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one.listeners--; one.listeners == 0 && b.by[id] == one {
		delete(b.by, id)
	}
}

// ring wakes everyone who listens now.
func (b *bells) ring(id palyra.ApprovalID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.by[id]; one != nil {
		close(one.rung)
		delete(b.by, id)
	}
}
