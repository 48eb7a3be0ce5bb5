package gate

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// program is the plan of a call that runs a program.
func program() palyra.Plan {
	p := plan("a.txt")
	p.Tier = palyra.TierC
	return p
}

// A program is looked at again while its granted line becomes durable, and runs after both. Only a look that came out
// well and is new counts; after any other there is one more, which alone decides.
func TestAProgramIsResolvedAgainBesideTheBarrier(t *testing.T) {
	changed := program()
	changed.Inputs = []palyra.Input{{Path: "b", Mode: 4}}
	for name, c := range map[string]struct {
		barrier time.Duration                                  // what the granted line takes
		look    func(n int64, ctx context.Context) palyra.Plan // the n-th look; nil: always the same
		looks   int64
		reason  palyra.Reason
		refuse  func(palyra.Event) error
	}{
		"as it was":         {looks: 2},
		"a slow barrier":    {barrier: newEnough + time.Millisecond, looks: 3},
		"just quick enough": {barrier: newEnough - time.Millisecond, looks: 2},
		"changed for good": {looks: 3, reason: palyra.ReasonPlanChanged, look: func(n int64, _ context.Context) palyra.Plan {
			if n > 1 {
				return changed
			}
			return program()
		}},
		"changed during a slow barrier": {
			barrier: time.Second / 2, looks: 3, reason: palyra.ReasonPlanChanged,
			look: func(n int64, _ context.Context) palyra.Plan {
				if n > 2 {
					return changed
				}
				return program()
			},
		},
		"changed, and back": {looks: 3, look: func(n int64, _ context.Context) palyra.Plan {
			if n == 2 {
				return changed
			}
			return program()
		}},
		"a look that takes long": {looks: 3, look: func(n int64, ctx context.Context) palyra.Plan {
			if n == 2 {
				<-ctx.Done()
			}
			return program()
		}},
		"a panic": {looks: 3, look: func(n int64, _ context.Context) palyra.Plan {
			if n == 2 {
				panic("a defect")
			}
			return program()
		}},
		"the lease was spent": {looks: 2, reason: palyra.ReasonAlreadyDecided, refuse: func(e palyra.Event) error {
			if _, ok := e.(palyra.CallGranted); ok {
				return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "spent")
			}
			return nil
		}, look: func(n int64, ctx context.Context) palyra.Plan {
			if n == 2 {
				<-ctx.Done() // it is not waited for longer than it is needed
			}
			return program()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var looks atomic.Int64
				durable := make(chan struct{})
				began := time.Now()
				w.resolveIn, w.resolve = nil, nil
				w.resolveAs = func(ctx context.Context) (palyra.Plan, error) {
					n := looks.Add(1)
					if n == 3 && c.refuse == nil {
						select {
						case <-durable:
						default:
							t.Error("the look that decides came before the granted line")
						}
					}
					p := program()
					if c.look != nil {
						p = c.look(n, ctx)
					}
					return p, nil
				}
				w.recordIn = func(kinds []string) {
					if slices.Contains(kinds, "call.granted") {
						<-time.After(c.barrier)
						close(durable)
					}
				}
				w.refuse = c.refuse
				w.execute = func(context.Context, palyra.Launch) palyra.Result {
					<-durable
					return palyra.Result{Executor: "c"}
				}
				out, err := w.do(t.Context())
				if err != nil || out.ReasonCode != c.reason || (w.runs == 1) != (c.reason == "") || looks.Load() != c.looks {
					t.Errorf("%d looks, %d runs: %+v, %v", looks.Load(), w.runs, out, err)
				}
				if name == "the lease was spent" && time.Since(began) != 0 {
					t.Errorf("refused after %s", time.Since(began))
				}
			})
		})
	}
}

// Whoever leaves while a program is looked at is told so, and nothing runs.
func TestCancelledBesideTheBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		var looks atomic.Int64
		w.resolveAs = func(ctx context.Context) (palyra.Plan, error) {
			if looks.Add(1) > 1 {
				cancel()
				<-ctx.Done()
			}
			return program(), ctx.Err()
		}
		w.recordIn = func([]string) { <-time.After(time.Millisecond) }
		if out, err := w.do(ctx); err != nil || out.ReasonCode != palyra.ReasonCancelled || w.runs != 0 {
			t.Errorf("%+v, %v, %d runs", out, err, w.runs)
		}
	})
}
