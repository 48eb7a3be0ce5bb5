package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/run/background"
	"palyra/internal/run/calllog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard is what a follower was told, in order.
type heard struct {
	kinds []string
	text  string
}

func (h *heard) watch() palyra.Watch {
	return palyra.Watch{
		Event:   func(_ *palyra.Call, e palyra.Event) { h.kinds = append(h.kinds, e.Kind()) },
		Running: func(*palyra.Call) { h.kinds = append(h.kinds, "running") },
		Output: func(c palyra.Chunk) {
			h.kinds = append(h.kinds, "output")
			if c.Offset != int64(len(h.text)) {
				h.text += fmt.Sprintf("<gap at %d>", c.Offset)
			}
			h.text += string(c.Data)
		},
	}
}

// joins follows a call that is under way, and returns when something was heard.
func (h *heard) joins(follow func(palyra.Watch) (palyra.Outcome, error)) <-chan error {
	done, hears := make(chan error, 1), make(chan struct{})
	watch := h.watch()
	hear, once := watch.Event, sync.OnceFunc(func() { close(hears) })
	watch.Event = func(c *palyra.Call, e palyra.Event) {
		hear(c, e)
		once()
	}
	go func() {
		_, err := follow(watch)
		done <- err
	}()
	<-hears // or the call may be over first
	return done
}

func TestFollowersHearOutputInItsPlace(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{"print":["a","b","c"],"hold":true}`)
	p.Key = "k"
	var first heard
	done := make(chan error, 1)
	go func() {
		_, err := w.calls.Call(t.Context(), p, first.watch())
		done <- err
	}()
	id := <-w.parts.started

	// Those that join late hear everything from the first line on.
	var late, watching heard
	joined := late.joins(func(w2 palyra.Watch) (palyra.Outcome, error) { return w.calls.Call(t.Context(), p, w2) })
	watched := watching.joins(func(w2 palyra.Watch) (palyra.Outcome, error) { return w.calls.Watch(t.Context(), id, w2) })
	close(w.parts.proceed)
	for _, ch := range []<-chan error{done, joined, watched} {
		if err := <-ch; err != nil {
			t.Fatal(err)
		}
	}
	for name, h := range map[string]heard{"first": first, "late": late, "watching": watching} {
		got := slices.Compact(h.kinds)
		want := []string{"call.proposed", "call.judged", "call.granted", "running", "output", "call.finished"}
		if !slices.Equal(got, want) || h.text != "abc" {
			t.Errorf("%s heard %v and %q", name, got, h.text)
		}
	}
}

func TestANilWatchIsFine(t *testing.T) {
	w := newWorld(t)
	if _, err := w.calls.Call(t.Context(), w.proposal(`{"print":["a"]}`), palyra.Watch{}); err != nil {
		t.Fatal(err)
	}
	w.calls.Output("01ARZ3NDEKTSV4RRFFQ69G5FAV", palyra.Chunk{Data: []byte("x")}) // no such call
}

// A follower that does not read holds up neither the call nor the others.
func TestASlowFollowerHoldsUpNobody(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{"print":["a","b"]}`)
	p.Key = "k"
	stuck, free := make(chan struct{}), make(chan struct{})
	slow := make(chan error, 1)
	go func() {
		_, err := w.calls.Call(t.Context(), p, palyra.Watch{Event: func(*palyra.Call, palyra.Event) {
			select {
			case stuck <- struct{}{}:
				<-free
			default:
			}
		}})
		slow <- err
	}()
	<-stuck
	if out, err := w.calls.Call(t.Context(), p, palyra.Watch{}); err != nil || out.Stdout != "ab" {
		t.Errorf("%+v, %v", out, err)
	}
	close(free)
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

// fly puts a flight into the air without a gate.
func (w *world) fly(p palyra.Principal, id palyra.CallID) *flight {
	w.calls.mu.Lock()
	defer w.calls.mu.Unlock()
	return w.calls.fly(id, palyra.Proposal{Proposer: palyra.Proposer{Principal: p}}, "")
}

func TestOutputIsBounded(t *testing.T) {
	w := newWorld(t)
	text := func(f *flight) (all []byte) {
		news, _ := f.log.Since(calllog.Mark{})
		for _, x := range news {
			all = append(all, x.Out.Data...)
		}
		return all
	}
	t.Run("large pieces", func(t *testing.T) {
		f := w.fly("agent:a", "A")
		defer w.calls.land(f, palyra.Outcome{}, nil)
		for i := range int64(10) {
			w.calls.Output("A", palyra.Chunk{Stream: "stdout", Offset: i << 20, Data: make([]byte, 1<<20)})
		}
		if n := len(text(f)); n > maxPrinted || n < maxPrinted-8*calllog.PerPiece || !f.cut {
			t.Errorf("%d bytes kept", n)
		}
	})
	t.Run("tiny pieces cost what they cost", func(t *testing.T) {
		f := w.fly("agent:a", "B")
		defer w.calls.land(f, palyra.Outcome{}, nil)
		for i := range int64(100_000) {
			w.calls.Output("B", palyra.Chunk{Stream: []string{"stdout", "stderr"}[i%2], Offset: i / 2, Data: []byte("x")})
		}
		if n := len(text(f)); n > maxPrinted/calllog.PerPiece || !f.cut {
			t.Errorf("%d pieces kept", n)
		}
		w.calls.Output("B", palyra.Chunk{Stream: "stdout", Data: []byte("later")})
		if strings.Contains(string(text(f)), "later") {
			t.Error("there is a hole in what was kept")
		}
	})
	t.Run("a principal", func(t *testing.T) {
		var all []*flight
		for i := range 40 {
			f := w.fly("agent:b", palyra.CallID(fmt.Sprint("F", i)))
			all = append(all, f)
			w.calls.Output(f.id, palyra.Chunk{Stream: "stdout", Data: make([]byte, 4<<20)})
		}
		if n := w.calls.held["agent:b"].shown; n > maxShownEach {
			t.Errorf("%d bytes held for one principal", n)
		}
		other := w.fly("agent:c", "O")
		w.calls.Output("O", palyra.Chunk{Stream: "stdout", Data: []byte("mine")})
		if string(text(other)) != "mine" {
			t.Error("another principal has no room")
		}
		w.calls.land(all[0], palyra.Outcome{}, nil) // what it held is given back
		if n := w.calls.held["agent:b"].shown; n > maxShownEach-maxPrinted+calllog.PerPiece {
			t.Errorf("%d bytes held after one has landed", n)
		}
		for _, f := range append(all[1:], other) {
			w.calls.land(f, palyra.Outcome{}, nil)
		}
		if w.calls.shown != 0 || len(w.calls.held) != 0 {
			t.Errorf("%d bytes still booked, %v", w.calls.shown, w.calls.held)
		}
	})
}

func TestSendFeedsARunningCall(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"feed":true}`))
	id := <-w.parts.started
	long := strings.Repeat("0123456789", maxFeed/4)
	for _, x := range []palyra.Feed{{Data: []byte("in, ")}, {Data: []byte(long)}, {End: true}} {
		if err := w.calls.Send(t.Context(), id, tester, x); err != nil {
			t.Fatal(err)
		}
	}
	if r := <-ch; r.err != nil || r.out.Stdout != "in, "+long {
		t.Fatalf("%d bytes, %v", len(r.out.Stdout), r.err)
	}
	if err := w.calls.Send(t.Context(), id, tester, palyra.Feed{}); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("an ended call: %v", err)
	}
	if err := w.calls.Send(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", tester, palyra.Feed{}); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no call: %v", err)
	}
	if _, ok := w.calls.Feed(id); ok {
		t.Error("an ended call can be fed")
	}
}

func TestSendWaitsForTheReader(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"hold":true}`)) // it never reads
	id := <-w.parts.started
	for range feedDepth {
		if err := w.calls.Send(t.Context(), id, tester, palyra.Feed{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer leave()
	if err := w.calls.Send(ctx, id, tester, palyra.Feed{Data: []byte("x")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one too many: %v", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- w.calls.Send(t.Context(), id, tester, palyra.Feed{Data: []byte("x")}) }()
	close(w.parts.proceed)
	<-ch
	if err := <-waiting; palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("the call ended meanwhile: %v", err)
	}
}

// A call that went on after a restart has lost its client: nobody feeds it.
func TestAResumedCallIsNotFed(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"ask":true,"feed":true}`))
	id := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	w.close()
	<-ch
	w.open()
	if err := w.calls.Send(t.Context(), calls[0].ID, tester, palyra.Feed{End: true}); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("a call that waits for its answer: %v", err)
	}
	w.allow(id, calls[0].Digest)
	w.recover()
	<-w.parts.started
	for w.calls.InFlight() > 0 {
		if _, ok := w.calls.Feed(calls[0].ID); ok {
			t.Error("it can be fed")
		}
		if err := w.calls.Send(t.Context(), calls[0].ID, tester, palyra.Feed{}); palyra.CodeOf(err) != palyra.Conflict {
			t.Errorf("it took input: %v", err)
		}
	}
	if c, err := w.calls.Get(t.Context(), calls[0].ID); err != nil || c.Outcome.Stdout != "nobody feeds" {
		t.Errorf("%+v, %v", c.Outcome, err)
	}
}

func TestCausesNameTheirReason(t *testing.T) {
	for reason, err := range map[palyra.Reason]error{palyra.ReasonCancelled: ErrCancelled, palyra.ReasonGrantRevoked: ErrLeaseEnded} {
		if palyra.AsError(err).Reason != reason || err.Error() == "" {
			t.Errorf("%v", err)
		}
	}
}

// bareCalls has flights and nothing else.
func bareCalls() (*Calls, *flight) {
	c := &Calls{
		byID: map[palyra.CallID]*flight{}, byKey: map[flightKey]*flight{}, held: map[string]holding{}, Processes: background.New(),
	}
	return c, c.fly("A", palyra.Proposal{Proposer: palyra.Proposer{Principal: "agent:a"}}, "")
}

// follower hears what a flight prints, and says how much that was when it has ended.
func follower(t *testing.T, c *Calls, f *flight, caller bool, take func(palyra.Chunk)) (total <-chan int64) {
	done := make(chan int64, 1)
	started := make(chan struct{})
	go func() {
		var n int64
		close(started)
		_, _ = c.follow(t.Context(), f, palyra.Watch{Output: func(x palyra.Chunk) {
			take(x)
			n += int64(len(x.Data))
		}}, caller)
		done <- n
	}()
	<-started
	synctest.Wait()
	return done
}

// A caller gets everything, however slow it is, in bounded memory; another follower holds nothing up and hears a
// clean beginning; a caller that takes nothing is not waited for long.
func TestOutputWaitsForItsCaller(t *testing.T) {
	const pieces, size = 1000, 32 << 10
	print := func(c *Calls, f *flight) (most int64) {
		for i := range int64(pieces) {
			c.Output(f.id, palyra.Chunk{Stream: "stdout", Offset: i * size, Data: make([]byte, size)})
			c.mu.Lock()
			most = max(most, f.printed)
			c.mu.Unlock()
		}
		return most
	}
	t.Run("slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, f := bareCalls()
			var at int64
			all := follower(t, c, f, true, func(x palyra.Chunk) {
				if x.Offset != at {
					t.Errorf("a piece at %d after %d", x.Offset, at)
				}
				at = x.Offset + int64(len(x.Data))
				time.Sleep(patience / 500)
			})
			free := make(chan struct{})
			other := follower(t, c, f, false, func(palyra.Chunk) { <-free })
			most := print(c, f)
			c.land(f, palyra.Outcome{}, nil)
			if n := <-all; n != pieces*size || most > maxPrinted || f.cut {
				t.Errorf("%d of %d bytes came, %d were kept at once", n, pieces*size, most)
			}
			if c.shown != 0 || len(c.held) != 0 {
				t.Errorf("%d bytes still booked, %v", c.shown, c.held)
			}
			close(free)
			if n := <-other; n == 0 || n > 2*maxPrinted {
				t.Errorf("another follower heard %d bytes", n)
			}
		})
	})
	t.Run("in tiny pieces", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, f := bareCalls()
			all := follower(t, c, f, true, func(palyra.Chunk) {})
			const many = 100_000
			for i := range int64(many) {
				c.Output(f.id, palyra.Chunk{Stream: []string{"stdout", "stderr"}[i%2], Offset: i / 2, Data: []byte("x")})
			}
			c.land(f, palyra.Outcome{}, nil)
			if n := <-all; n != many || f.cut {
				t.Errorf("%d of %d bytes came", n, many)
			}
		})
	})
	t.Run("beside others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, f := bareCalls()
			all := follower(t, c, f, true, func(palyra.Chunk) {})
			c.mu.Lock()
			c.shown = maxShownAll
			c.mu.Unlock()
			time.AfterFunc(patience/2, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.shown -= maxShownAll
			})
			c.Output(f.id, palyra.Chunk{Stream: "stdout", Data: []byte("late")})
			c.land(f, palyra.Outcome{}, nil)
			if n := <-all; n != 4 || f.cut {
				t.Errorf("%d bytes", n)
			}
		})
	})
	t.Run("takes nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, f := bareCalls()
			free := make(chan struct{})
			n := follower(t, c, f, true, func(palyra.Chunk) { <-free })
			begun := time.Now()
			print(c, f)
			if took := time.Since(begun); took != patience || !f.cut {
				t.Errorf("waited %v, cut: %v", took, f.cut)
			}
			c.land(f, palyra.Outcome{}, nil)
			close(free)
			if n := <-n; n > maxPrinted || n == 0 {
				t.Errorf("%d bytes", n)
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, f := bareCalls()
			stop, free := make(chan struct{}), make(chan struct{})
			f.stopping = stop
			follower(t, c, f, true, func(palyra.Chunk) { <-free })
			time.AfterFunc(patience/2, func() { close(stop) })
			begun := time.Now()
			print(c, f)
			if took := time.Since(begun); took != patience/2 {
				t.Errorf("waited %v", took)
			}
			c.land(f, palyra.Outcome{}, nil)
			close(free)
		})
	})
}
