package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/store"
)

func testDaemon(tb testing.TB) *Daemon {
	tb.Helper()
	home := filepath.Join(tb.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		tb.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Home: home, Env: []string{}, Flags: map[string]string{"process.dir": filepath.Join(tb.TempDir(), "cells")}})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := New(tb.Context(), Config{Config: cfg, Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// BenchmarkGate shows what a gated call costs beside a bare row that is made
// durable by the same group commit, in the same run: p50 and p99 of both and
// their ratio. The tool is palyra.echo, so what is measured is the path.
func BenchmarkGate(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			d := testDaemon(b)
			bare := bareCommit(b, d.db)
			call := func(ctx context.Context) error {
				_, err := d.path.calls.Call(ctx, palyra.Proposal{
					Principal: "agent:bench", Owner: "user:bench", Door: palyra.DoorAPI, Tool: "palyra.echo", Arguments: json.RawMessage(`{"text":"x"}`),
				}, palyra.Watch{})
				return err
			}
			b.ResetTimer()
			bareTimes := spread(b, callers, b.N, bare)
			gateTimes := spread(b, callers, b.N, call)
			b.StopTimer()
			report(b, "bare", bareTimes)
			report(b, "gate", gateTimes)
			b.ReportMetric(float64(at(gateTimes, 50))/float64(at(bareTimes, 50)), "ratio-p50")
			b.ReportMetric(0, "ns/op") // the sum of both means nothing
		})
	}
}

// bareCommit writes one short row through the same store.
func bareCommit(b *testing.B, db *store.DB) func(context.Context) error {
	exec := func(q string, args ...any) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			_, err := tx.Exec(q, args...)
			return err
		}
	}
	if err := db.Write(b.Context(), "bench", exec(`CREATE TABLE bare (v BLOB)`)); err != nil {
		b.Fatal(err)
	}
	row := make([]byte, 256)
	return func(ctx context.Context) error {
		return db.Write(ctx, "bench", exec(`INSERT INTO bare (v) VALUES (?)`, row))
	}
}

// spread runs f n times on several goroutines and returns how long each took.
func spread(b *testing.B, callers, n int, f func(context.Context) error) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	start := time.Now()
	for i := range callers {
		wg.Go(func() {
			var mine []time.Duration
			for range n/callers + min(1, max(0, n%callers-i)) {
				t := time.Now()
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	slices.Sort(all)
	return append(all, time.Since(start)) // the last is the whole span
}

func at(times []time.Duration, percent int) time.Duration {
	one := times[:len(times)-1]
	if len(one) == 0 {
		return 0
	}
	return one[min(len(one)-1, len(one)*percent/100)]
}

func report(b *testing.B, name string, times []time.Duration) {
	b.ReportMetric(float64(at(times, 50).Microseconds()), name+"-p50-µs")
	b.ReportMetric(float64(at(times, 99).Microseconds()), name+"-p99-µs")
	b.ReportMetric(float64(len(times)-1)/times[len(times)-1].Seconds(), name+"/s")
}
