package pairing

import (
	"context"
	"log/slog"
	"time"

	"palyra"
)

const (
	quiet      = time.Minute // between two records of failures outside an offer, by reason
	recordWait = 5 * time.Second
)

// failure counts what happened since the last record.
type failure struct {
	at    time.Time
	count int64
}

// failed records a try of an offer that came to nothing. There are at most as many as a code has tries.
func (o *Office) failed(ctx context.Context, e palyra.PairingFailed) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordWait)
	defer stop()
	if err := o.c.Record(ctx, e); err != nil {
		// It was refused all the same; what is missing is the line about it.
		o.c.Log.Error("pairing: record a failure", slog.String("reason", string(e.Reason)), slog.Any("error", err))
	}
}

// turnedAway records devices that were refused without a try. Anyone can come as often as they like, so there
// is one record for each reason and minute, with their number.
func (o *Office) turnedAway(ctx context.Context, reason palyra.Reason, address string) {
	now := o.c.Now()
	o.mu.Lock()
	f := o.failures[reason]
	if f == nil {
		f = &failure{}
		o.failures[reason] = f // the reasons are few: see problems
	}
	f.count++
	n, due := f.count, f.at.IsZero() || now.Sub(f.at) >= quiet || now.Before(f.at)
	if due {
		f.at, f.count = now, 0
	}
	o.mu.Unlock()
	if due {
		o.failed(ctx, palyra.PairingFailed{Reason: reason, Address: address, Tries: n})
	}
}
