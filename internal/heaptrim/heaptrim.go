// Package heaptrim gives memory back to the system once a busy time is over.
//
// The daemon lets its heap grow far beyond what is live, so that no call waits for the collector. What a burst leaves
// behind would then stay for minutes. Watch collects it in the first quiet moment, when nobody waits for the time it takes.
package heaptrim

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Slack lets the heap grow to five times the live memory before it is collected: little memory is live, and a call
// should not wait for the collector. What that leaves behind goes in quiet moments.
const Slack = 400

const (
	// Every is how often Watch looks, for a daemon.
	Every = 2 * time.Second
	// quietBytes is what may be allocated between two looks for the time between them to count as quiet.
	quietBytes = 512 << 10
	// worthBytes is the garbage that is worth a collection.
	worthBytes = 8 << 20
)

// Watch trims the heap in quiet moments, until ctx ends.
func Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	w := watcher{trim: trim}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(allocated())
		}
	}
}

// trim collects what is not live. Each collection halves the stacks that goroutines grew and no longer need.
func trim() {
	const halvings = 2
	for range halvings {
		runtime.GC()
	}
	debug.FreeOSMemory()
}

// watcher decides when a moment is quiet.
type watcher struct {
	trim    func()
	last    uint64 // allocated at the last look
	trimmed uint64 // allocated at the last trim
}

// look takes in how many bytes were ever allocated.
func (w *watcher) look(now uint64) {
	quiet := now-w.last < quietBytes
	w.last = now
	if quiet && now-w.trimmed > worthBytes {
		w.trim()
		w.trimmed = now
	}
}

// allocated is how many bytes of the heap were ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
