package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// What the daemon says twice is told once; what it leaves out is noticed.
func TestAttachmentKeepsItsPlace(t *testing.T) {
	var got []int64
	a := &attachment{run: "R", seen: 4, f: func(e palyra.TapeEntry) error { got = append(got, e.Seq); return nil }}
	for _, seq := range []int64{3, 4, 5, 5, 6} {
		if err := a.tell(palyra.TapeEntry{Seq: seq}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.tell(palyra.TapeEntry{Seq: 8}); palyra.CodeOf(err) != palyra.Internal || a.failed != nil {
		t.Errorf("a gap: %v", err)
	}
	if len(got) != 2 || got[0] != 5 || got[1] != 6 || a.seen != 6 {
		t.Errorf("%v, seen %d", got, a.seen)
	}
	broken := errors.New("broken")
	a.f = func(palyra.TapeEntry) error { return broken }
	if err := a.tell(palyra.TapeEntry{Seq: 7}); !errors.Is(err, broken) || a.seen != 6 {
		t.Errorf("%v, seen %d", err, a.seen)
	}
}

func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pause
		began := time.Now()
		var last time.Duration
		for range 20 {
			at := time.Now()
			if err := p.longer(t.Context()); err != nil {
				t.Fatal(err)
			}
			d := time.Since(at)
			if d < last || d > longest || d < shortest {
				t.Errorf("%v after %v", d, last)
			}
			last = d
		}
		if last != longest || time.Since(began) > 20*longest {
			t.Errorf("the last pause was %v", last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.longer(ctx); !errors.Is(err, context.DeadlineExceeded) || palyra.AsError(err).Reason != palyra.ReasonTimedOut {
			t.Errorf("%v", err)
		}
	})
}
