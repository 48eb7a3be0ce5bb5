package replay

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
)

// Lot is records that are still to be read. It is called once, on any core beside others, and its records are the caller's.
type Lot func() []Record

// Records goes through records, lot after lot, and passes on the error that it is given.
type Records func(yield func(Lot) error) error

// mostLots bounds the lots under way: a lot may be some MiB.
const mostLots = 8

// ordered reads lots and hands every record to work, on every core, and the results to take, one after the other in
// the order of the records. The next lots are fetched meanwhile. Work under way when ctx ends is not taken.
func ordered[T any](ctx context.Context, each Records, work func(Record) T, take func(Record, T)) error {
	within, cancel := context.WithCancel(ctx)
	o := &order[T]{
		work: work, todo: make(chan *job[T]), inOrder: make(chan *job[T], min(2*runtime.GOMAXPROCS(0), mostLots)),
	}
	var wg sync.WaitGroup
	var told error
	wg.Go(func() {
		defer close(o.inOrder)
		defer close(o.todo)
		told = each(func(l Lot) error { return o.add(within, l) })
	})
	for range runtime.GOMAXPROCS(0) {
		wg.Go(o.run)
	}
	cut := o.takeAll(ctx, take)
	cancel()
	for range o.inOrder { // whoever fetches may wait to hand over
	}
	wg.Wait()
	return errors.Join(told, leftOut(told, cmp.Or(cut, o.stopped)))
}

// leftOut is the reason for stopping that a reader did not pass on: without it half a report would pass for a
// whole one.
func leftOut(err, stopped error) error {
	if stopped == nil || errors.Is(err, stopped) {
		return nil
	}
	return stopped
}

// order is lots under way.
type order[T any] struct {
	work    func(Record) T
	todo    chan *job[T]
	inOrder chan *job[T]
	stopped error // why lots were not put under way
}

// job is one lot, and what came of it.
type job[T any] struct {
	lot     Lot
	records []Record
	out     []T
	done    chan struct{}
}

// add puts a lot under way.
func (o *order[T]) add(ctx context.Context, l Lot) error {
	j := &job[T]{lot: l, done: make(chan struct{})}
	for _, to := range []chan *job[T]{o.inOrder, o.todo} {
		select {
		case to <- j:
		case <-ctx.Done():
		}
		if o.stopped = ctx.Err(); o.stopped != nil {
			break
		}
	}
	return o.stopped
}

// run works on lots until there are no more.
func (o *order[T]) run() {
	for j := range o.todo {
		j.records = j.lot()
		j.out = make([]T, len(j.records))
		for i, one := range j.records {
			j.out[i] = o.work(one)
		}
		close(j.done)
	}
}

// takeAll takes results until there are no more or ctx ends, and returns why it stopped before.
func (o *order[T]) takeAll(ctx context.Context, take func(Record, T)) error {
	for j := range o.inOrder {
		select {
		case <-j.done:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil { // what was judged meanwhile was cut short
			return err
		}
		for i, one := range j.records {
			take(one, j.out[i])
		}
	}
	return nil
}
