package approval

import (
	"context"

	"palyra"
	"palyra/internal/store"
)

// OnSettled registers f, to be told of every approval that has its answer, whoever waits for it. f is called after
// the answer is durable, on the committing goroutine: it must be quick and must not write. Register before the desk
// is in use.
func (d *Desk) OnSettled(f func(approval palyra.ApprovalID)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = append(d.settled, f)
}

func (d *Desk) tellSettled(id palyra.ApprovalID) {
	d.mu.Lock()
	told := d.settled
	d.mu.Unlock()
	for _, f := range told {
		f(id)
	}
}

// Settled reports whether an approval has its answer.
func (d *Desk) Settled(ctx context.Context, id palyra.ApprovalID) (bool, error) {
	dec, err := d.decision(ctx, id)
	return dec.Answer != palyra.AnswerPending, err
}

// CountPending returns how many questions are open.
func (d *Desk) CountPending(ctx context.Context) (n int64, err error) {
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Get(`SELECT count(*) FROM approvals WHERE decision = ''`, nil, &n)
	})
	return n, wrap("count", err)
}
