package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"palyra"
)

// ordered hands every record to work, on every core, and what came of it to take,
// one after the other in the order of the records. Each passes on the error that
// it is given. What is under way when ctx ends is not taken.
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

// leftOut is the reason for stopping that a reader did not pass on: without it half
// a report would pass for a whole one.
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

// during is the state whose judgements end with ctx: a candidate may be large, and
// nobody waits for what was given up. The second result ends the watch.
func (s *state) during(ctx context.Context) (*state, func() bool) {
	var over atomic.Bool
	end := context.AfterFunc(ctx, func() { over.Store(true) })
	still := *s
	still.stop = over.Load
	return &still, end
}

// maxVerdicts bounds the verdicts that are remembered.
const maxVerdicts = 16_384

// verdicts remembers how requests of one key were judged: an agent says the same
// again and again. It is of one state; the zero value is ready.
type verdicts struct {
	look   sync.Once
	sights *sights
	mu     sync.Mutex
	known  map[string]palyra.Verdict
}

// of judges a record's request, or remembers how it was.
func (m *verdicts) of(s *state, one Record) (palyra.Verdict, error) {
	return m.again(s, one, new(*call))
}

// again is of for requests that differ in nothing but the approval: what is built
// for the first is there for the next.
func (m *verdicts) again(s *state, one Record, c **call) (palyra.Verdict, error) {
	key := one.Key
	if a := one.Request.Approval; key != "" && a != nil {
		key = fmt.Sprintf("%s\x00%+v", key, *a)
	}
	if v, ok := m.recall(key); ok {
		return v, nil
	}
	if *c == nil {
		built, err := s.newCall(one.Request)
		if err != nil {
			return palyra.Verdict{}, err
		}
		m.look.Do(func() { m.sights = sightsOf(s.bundle.rules) })
		built.sights, *c = m.sights, built
	}
	(*c).request.Approval = one.Request.Approval
	v := (*c).judge()
	m.keep(key, v)
	return v, nil
}

func (m *verdicts) recall(key string) (v palyra.Verdict, ok bool) {
	if key == "" {
		return v, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok = m.known[key]
	return v, ok
}

func (m *verdicts) keep(key string, v palyra.Verdict) {
	if key == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxVerdicts {
		m.known = map[string]palyra.Verdict{}
	}
	m.known[key] = v
}
