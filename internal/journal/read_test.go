package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func seqs(list []palyra.Entry) (out []int64) {
	for _, e := range list {
		out = append(out, e.Seq)
	}
	return out
}

func TestEntries(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 1200)
	span := func(from, to int64) (out []int64) {
		for n := from; n <= to; n++ {
			out = append(out, n)
		}
		return out
	}
	for name, c := range map[string]struct {
		q    palyra.EntryFilter
		want []int64
	}{
		"default":         {palyra.EntryFilter{}, span(1, 100)},
		"range":           {palyra.EntryFilter{From: 7, To: 9}, span(7, 9)},
		"negative":        {palyra.EntryFilter{From: -5, To: 2}, span(1, 2)},
		"limit":           {palyra.EntryFilter{From: 7, Limit: 2}, span(7, 8)},
		"negative limit":  {palyra.EntryFilter{Limit: -1}, span(1, 100)},
		"greatest limit":  {palyra.EntryFilter{Limit: 1 << 40}, span(1, 1000)},
		"nothing":         {palyra.EntryFilter{From: 5000}, nil},
		"kind":            {palyra.EntryFilter{Kind: "call.judged", Limit: 3}, []int64{2, 6, 10}},
		"kind and range":  {palyra.EntryFilter{Kind: "call.judged", From: 7, To: 14}, []int64{10, 14}},
		"call":            {palyra.EntryFilter{Call: "01JCQ000000000000000000001"}, []int64{5, 6, 7}},
		"call and kind":   {palyra.EntryFilter{Call: "01JCQ000000000000000000001", Kind: "call.granted"}, []int64{7}},
		"unknown kind":    {palyra.EntryFilter{Kind: "x'; DROP TABLE journal_entries; --"}, nil},
		"kind of no call": {palyra.EntryFilter{Kind: "door.flood", Call: "01JCQ000000000000000000001"}, nil},
	} {
		list, err := f.Entries(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, seqs(list)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEntriesDamaged(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 3)
	mustExec(t, f.raw(t), "UPDATE journal_entries SET entry = 'x' WHERE seq = 2")
	_, err := f.Entries(t.Context(), palyra.EntryFilter{})
	if palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("error %v", err)
	}
}

// watch collects a watch's entries until it has n, then stops.
func watch(ctx context.Context, f *fixture, from int64, n int) (got []int64, err error) {
	err = f.Watch(ctx, from, func(e palyra.Entry) error {
		if got = append(got, e.Seq); len(got) == n {
			return errOwn
		}
		return nil
	})
	return got, err
}

func TestWatchHistoryThenLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fill(t, 600)
		var all sync.WaitGroup
		for from, first := range map[int64]int64{-3: 1, 0: 1, 1: 1, 300: 300, 601: 601, 650: 650} {
			all.Go(func() {
				got, err := watch(t.Context(), f, from, int(700-first+1))
				if !errors.Is(err, errOwn) {
					t.Error(err)
				}
				for i, seq := range got {
					if seq != first+int64(i) {
						t.Errorf("from %d: place %d has entry %d", from, i, seq)
						break
					}
				}
			})
		}
		synctest.Wait() // all are at the end of what there is
		f.fill(t, 100)
		all.Wait()
	})
}

// A watcher that is slow delays nobody, and still misses nothing.
func TestWatchSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		stuck, done := make(chan struct{}), make(chan []int64)
		go func() {
			var got []int64
			_ = f.Watch(t.Context(), 1, func(e palyra.Entry) error {
				if <-stuck; len(got) == 999 {
					return errOwn
				}
				got = append(got, e.Seq)
				return nil
			})
			done <- got
		}()
		f.fill(t, 1000) // all of it while the watcher is stuck on the first
		close(stuck)
		got := <-done
		if len(got) != 999 || !slices.IsSorted(got) || got[998] != 999 {
			t.Errorf("%d entries", len(got))
		}
	})
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fill(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		go func() { _, err := watch(ctx, f, 1, 100); errs <- err }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("ended by its context: %v", err)
		}
		go func() {
			got, err := watch(t.Context(), f, 1, 100)
			if len(got) != 3 {
				t.Errorf("%d entries before the close", len(got))
			}
			errs <- err
		}()
		synctest.Wait()
		f.shut(t)
		if err := <-errs; palyra.AsError(err).Reason != palyra.ReasonStopping {
			t.Errorf("ended by a close: %v", err)
		}
	})
}

// Undone entries are never seen, and what takes their place is.
func TestWatchSeesOnlyDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		done := make(chan []string, 1)
		go func() {
			var got []string
			_ = f.Watch(t.Context(), 1, func(e palyra.Entry) error {
				if got = append(got, e.Kind); len(got) == 2 {
					return errOwn
				}
				return nil
			})
			done <- got
		}()
		synctest.Wait()
		f.signer.fail = errors.New("no key")
		if _, err := f.Record(t.Context(), palyra.DaemonStarted{}); err == nil {
			t.Fatal("recorded without a signature")
		}
		synctest.Wait()
		f.signer.fail = nil
		for _, e := range []palyra.Event{palyra.DaemonStopped{}, palyra.KeyCreated{}} {
			if _, err := f.Record(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]string{"daemon.stopped", "key.created"}, <-done); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchGap(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 5)
	mustExec(t, f.raw(t), "DELETE FROM journal_entries WHERE seq = 3 OR seq = 5")
	for from, want := range map[int64][]int64{1: {1, 2}, 3: nil, 4: {4}, 5: nil} {
		got, err := watch(t.Context(), f, from, 100)
		if diff := cmp.Diff(want, got); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed || diff != "" {
			t.Errorf("from %d: %v, %v", from, got, err)
		}
	}
}
