package heaptrim

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestOnlyQuietMomentsAreUsed(t *testing.T) {
	trims := 0
	w := watcher{trim: func() { trims++ }}
	const mib = 1 << 20
	for i, step := range []struct {
		now  uint64
		want int
	}{
		{40 * mib, 0},         // a burst
		{60 * mib, 0},         // and still
		{60*mib + 1000, 1},    // now it is over
		{60*mib + 2000, 1},    // nothing to gain
		{65 * mib, 1},         // busy
		{65*mib + 1000, 1},    // quiet, and not worth it
		{69 * mib, 1},         // busy
		{69*mib + 100_000, 2}, // both together are
	} {
		if w.look(step.now); trims != step.want {
			t.Fatalf("step %d: %d trims, want %d", i, trims, step.want)
		}
	}
}

var sink [][]byte

// A burst's memory is the system's again, without anybody asking.
func TestMemoryGoesBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	for range 64 {
		sink = append(sink, make([]byte, 1<<20))
	}
	sink = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() { defer close(done); Watch(ctx, 10*time.Millisecond) }()
	for range 500 {
		runtime.ReadMemStats(&after)
		if after.HeapReleased >= before.HeapReleased+32<<20 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	<-done
	if after.HeapReleased < before.HeapReleased+32<<20 {
		t.Errorf("released %d bytes before and %d after", before.HeapReleased, after.HeapReleased)
	}
}
