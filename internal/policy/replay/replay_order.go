package replay

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// ordered hands every record to work, on every core, and the results to take, one after the other in the
// order of the records. Each passes on the error that it is given. Work under way when ctx ends is not taken.
func ordered[T any](ctx context.Context, each func(func(Record) error) error, work func(Record) T, take func(Record, T)) error {
	o := &order[T]{ctx: ctx, work: work, take: take}
	var stopped error
	err := each(func(one Record) error {
		if stopped == nil {
			stopped = ctx.Err()
		}
		if stopped == nil {
			o.add(one)
		}
		return stopped
	})
	o.flush()
	if stopped == nil {
		stopped = o.cut
	}
	return errors.Join(err, leftOut(err, stopped))
}

// leftOut is the reason for stopping that a reader did not pass on: without it half a report would pass for a
// whole one.
func leftOut(err, stopped error) error {
	if stopped == nil || errors.Is(err, stopped) {
		return nil
	}
	return stopped
}

// order is records under way.
type order[T any] struct {
	ctx     context.Context
	cut     error // why records were not taken
	work    func(Record) T
	take    func(Record, T)
	waiting []Record
	bytes   int
}

// add keeps a record until there are enough to work on at once.
func (o *order[T]) add(one Record) {
	o.waiting = append(o.waiting, one)
	o.bytes += len(one.Request.Plan.Arguments)
	if len(o.waiting) >= replayBatch || o.bytes >= replayBytes {
		o.flush()
	}
}

// flush works on what waits and takes it in.
func (o *order[T]) flush() {
	out := make([]T, len(o.waiting))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(out)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(out)) && o.ctx.Err() == nil; i = next.Add(1) - 1 {
				out[i] = o.work(o.waiting[i])
			}
		})
	}
	wg.Wait()
	if len(out) > 0 && o.cut == nil {
		o.cut = o.ctx.Err()
	}
	for i, one := range o.waiting {
		if o.cut == nil {
			o.take(one, out[i])
		}
	}
	clear(o.waiting)
	o.waiting, o.bytes = o.waiting[:0], 0
}
